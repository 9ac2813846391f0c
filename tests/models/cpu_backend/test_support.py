"""Tests of what the kernels can compute, and of the reason if they cannot."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.cpu_backend.support import why_unsupported
from embedwell_models.positions.schemes import Alibi, Rotary, Scaling
from tests.models.shapes import (
    KINDS,
    LONGROPE,
    deberta,
    llama,
    mixture,
    modern,
    random_weights,
    recurrent,
    shape,
)


def with_feed_forward(config: EncoderConfig, **different: Any) -> EncoderConfig:
    *first, last = config.layers
    network = replace(last.feed_forward, **different)
    return replace(config, layers=(*first, replace(last, feed_forward=network)))


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (with_feed_forward(shape(), activation="relu"), "feed-forward networks differ"),
        (with_feed_forward(shape(), inner=192), "feed-forward networks differ"),
        (with_feed_forward(shape(), adapter=8), "feed-forward networks differ"),
        (modern(local={"scale": 0.5}), "the scale or softcap of attention differs"),
        (shape(hidden=96, heads=3), "hidden_size is 96, not a multiple of 64"),
        (mixture(shape(inner=100)), "the inner width of experts is 100, not a multiple of 64"),
        (shape(heads=4), "the width of a head is 16, not a multiple of 32"),
        (shape(head_size=72, normed_values=True), "the width of a head is 72, not a multiple"),
        (shape(head_size=96, heads=1), "the width of all heads is 96, not a multiple of 64"),
        (modern(local={"softcap": 30.0}), "the scale or softcap of attention differs"),
        (modern(local={"window_after": 1}), "a window of attention has two sizes"),
        (shape(embedding_size=32, norm="rms"), "tables are not as wide"),
        (
            shape(positions=Rotary(dim=32, scaling=Scaling(kind="dynamic", original=8))),
            "no kernel for its positions",
        ),
        (mixture(shape(arrangement="pre")), "experts are gated, or have a norm before"),
        (mixture(shape(gated=True)), "experts are gated, or have a norm before"),
        (deberta(buckets=40, max_distance=21), "no kernel for its positions"),
        (modern(positions=Alibi()), "positions differ between layers"),
        (modern(local={"positions": Alibi()}), "positions differ between layers"),
        (modern(local={"positions": replace(LONGROPE, dim=32)}), "positions differ"),
        (recurrent(llama(windows=()), 0, size=48), "value of linear attention is 48, not"),
        (recurrent(llama(windows=()), 0, key_size=48), "key of linear attention is 48, not"),
        (recurrent(llama(windows=()), 0, heads=3, key_heads=1, size=32), "values of linear"),
    ],
)
def test_what_the_kernels_cannot_compute_is_left_to_torch_for_a_reason(
    config: EncoderConfig, reason: str
) -> None:
    assert reason in why_unsupported(config, random_weights(config))


def test_gates_that_the_kernels_cannot_compute_are_left_to_torch() -> None:
    config = KINDS["gates"]
    assert not why_unsupported(config, random_weights(config, gate=64))
    assert why_unsupported(config, random_weights(config, gate=96))
    other = replace(config, arrangement="pre")
    assert why_unsupported(other, random_weights(other, gate=64))
    local = config.with_windows((5, None, 40), head_size=48)
    assert why_unsupported(local, random_weights(local, gate=64))


def test_a_norm_of_all_heads_together_is_left_to_torch() -> None:
    weights = random_weights(shape(), normed=True)
    assert not why_unsupported(shape(), weights)
    assert why_unsupported(
        shape(), {**weights, "layers.1.key_norm.weight": np.ones(64, np.float32)}
    )


def test_heads_are_padded_where_no_norm_reads_the_zeros() -> None:
    config = shape(head_size=72)
    assert not why_unsupported(config, random_weights(config))
    assert "a normed head is 72" in why_unsupported(config, random_weights(config, normed=True))
