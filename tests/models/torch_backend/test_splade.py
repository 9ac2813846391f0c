"""Tests of SPLADE's head on a device."""

from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.splade import MaskedLMWeights, SpladeEncoder
from embedwell_models.families.heads import MaskedLMHead
from embedwell_models.model_files.sparse import Splade
from embedwell_models.outputs.text_outputs import SparseVector
from embedwell_models.torch_backend.linear import TorchLinearFactory
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.splade import (
    DeviceSpladeEncoder,
    TorchSpladeHead,
    nonzero_entries,
)
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
    assert_same(device.sparse(batch()), host.sparse(batch()))


def assert_same(found: list[SparseVector], expected: list[SparseVector]) -> None:
    assert sum(len(vector.indices) for vector in expected) > 3
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.indices.dtype == np.int32
        assert np.array_equal(ours.indices, theirs.indices)
        assert np.array_equal(ours.weights, theirs.weights, equal_nan=True)


def test_entries_of_rows_without_any_and_of_rows_that_are_nan_are_those_of_arrays() -> None:
    weights = torch.tensor([[0.0, 0, 0], [0, 2, 3], [float("nan")] * 3, [0, 0, 0], [1, 0, 4]])
    columns, values = nonzero_entries(weights, 7).numpy()
    expected = [SparseVector.of(row) for row in weights.numpy()]
    assert columns.view(np.int32).tolist() == [*chain(*(each.indices for each in expected))]
    np.testing.assert_array_equal(values, np.concatenate([each.weights for each in expected]))
    assert nonzero_entries(torch.zeros(2, 3), 0).shape == (2, 0)


@every_pooling
def test_the_host_receives_only_the_weights(pooling: Literal["max", "sum"], tmp_path: Path) -> None:
    write(Case("bert"), tmp_path)
    encoder, layers = torch_encoder(tmp_path, META)
    with ToHost() as received:
        DeviceSpladeEncoder(encoder, head(pooling, META), layers).vectors(batch(), ["splade"])
    assert received.shapes == [(len(LENGTHS), VOCABULARY)]


@every_pooling
def test_the_host_receives_the_numbers_of_weights_then_those_that_are_not_zero(
    pooling: Literal["max", "sum"], tmp_path: Path
) -> None:
    write(Case("bert"), tmp_path)
    encoder, layers = torch_encoder(tmp_path, META)
    with ToHost() as received:  # whose counts are zeros
        DeviceSpladeEncoder(encoder, head(pooling, META), layers).sparse(batch())
    assert received.shapes == [(len(LENGTHS),), (2, 0)]


def test_entries_are_found_without_the_host() -> None:
    weights = torch.empty(4, VOCABULARY, device=META)
    with OnDevice():  # type: ignore[no-untyped-call]
        assert nonzero_entries(weights, 5).shape == (2, 5)
