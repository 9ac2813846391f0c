"""Tests of SPLADE's head on a device."""

from typing import Literal

import numpy as np
import pytest
import torch

from embedwell_models.encoder.masked_lm import MaskedLMWeights
from embedwell_models.families.masked_lm_heads import MaskedLMHead
from embedwell_models.model_files.sparse import Splade
from embedwell_models.torch_backend.linear import TorchLinearFactory
from embedwell_models.torch_backend.splade import TorchSpladeHead
from embedwell_models.vectors import Floats
from tests.models.families.checkpoint import CPU
from tests.models.meta import META, OnDevice

VOCABULARY, WIDTH, LENGTHS = 9, 8, [3, 1, 70]
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
    with OnDevice():  # type: ignore[no-untyped-call]
        pooled = whole.pool(states, LENGTHS)
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
