"""Tests of SPLADE's head on a device."""

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.masked_lm import MaskedLMWeights
from embedwell_models.encoder.splade_encoder import SpladeEncoder
from embedwell_models.families.masked_lm_heads import MaskedLMHead
from embedwell_models.model_files.sparse import Splade
from embedwell_models.torch_backend.linear import TorchLinearFactory
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.splade import DeviceSpladeEncoder, TorchSpladeHead
from embedwell_models.vectors import Floats
from tests.models.families.checkpoint import CPU, Case, write
from tests.models.meta import META, OnDevice, ToHost
from tests.models.torch_backend.encoders import torch_encoder

VOCABULARY, WIDTH, LENGTHS = 9, 64, [3, 1, 70]
every_pooling = pytest.mark.parametrize("pooling", ["max", "sum"])


def head(pooling: Literal["max", "sum"], device: torch.device) -> TorchSpladeHead:
    noise = np.random.default_rng(1)

    def random(*shape: int) -> Floats:
        return noise.standard_normal(shape, dtype=np.float32)

    weights = MaskedLMWeights(
        dense=(random(WIDTH, WIDTH), random(WIDTH)),
        norm=(random(WIDTH), random(WIDTH)),
        output=(random(VOCABULARY, WIDTH), random(VOCABULARY)),
        activation="gelu",
        eps=1e-5,
    )
    splade = Splade(MaskedLMHead(dense="dense", norm="norm", output="output"), pooling)
    return TorchSpladeHead(splade, weights, TorchLinearFactory(device, torch.float32), device)


@every_pooling
def test_nothing_is_computed_on_the_host_or_read_from_the_device(
    pooling: Literal["max", "sum"],
) -> None:
    whole, states = head(pooling, META), torch.empty(sum(LENGTHS), WIDTH, device=META)
    layout = SequenceLayout(LENGTHS, META)
    _ = layout.memory  # what the pass has sent
    with OnDevice():  # type: ignore[no-untyped-call]
        pooled = whole.pool(states, layout)
    assert pooled.shape == (len(LENGTHS), VOCABULARY)


@every_pooling
def test_only_a_text_with_states_that_are_not_finite_has_no_finite_weights(
    pooling: Literal["max", "sum"],
) -> None:
    states = torch.randn(sum(LENGTHS), WIDTH, generator=torch.Generator().manual_seed(2))
    states[10, 0] = float("inf")
    pooled = head(pooling, CPU)(states.numpy(), LENGTHS)
    assert [bool(torch.tensor(row).isnan().all()) for row in pooled] == [False, False, True]
    assert torch.from_numpy(pooled[:2]).isfinite().all()


def batch() -> Batch:
    return Batch.of([np.arange(6, 6 + length) for length in LENGTHS])


@every_pooling
def test_weights_are_those_of_states_that_the_host_has(
    pooling: Literal["max", "sum"], tmp_path: Path
) -> None:
    write(Case("bert"), tmp_path)
    encoder, layers = torch_encoder(tmp_path, CPU)
    device = DeviceSpladeEncoder(encoder, head(pooling, CPU), layers)
    host = SpladeEncoder(encoder, head(pooling, CPU), layers)
    found, expected = (each.vectors(batch(), ["splade"]) for each in (device, host))
    assert found.any() and np.array_equal(found, expected)


@every_pooling
def test_the_host_receives_only_the_weights(pooling: Literal["max", "sum"], tmp_path: Path) -> None:
    write(Case("bert"), tmp_path)
    encoder, layers = torch_encoder(tmp_path, META)
    with ToHost() as received:
        DeviceSpladeEncoder(encoder, head(pooling, META), layers).vectors(batch(), ["splade"])
    assert received.shapes == [(len(LENGTHS), VOCABULARY)]
