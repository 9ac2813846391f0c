"""Poolings on a CPU against those on torch."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.pooling import POOLINGS, pool_batch, pool_rows
from embedwell_models.torch_backend import pooling as on_torch
from embedwell_models.torch_backend.sequence_layout import SequenceLayout

LENGTHS = np.array([3, 1, 8])
STATES = np.random.default_rng(1).standard_normal((12, 5)).astype(np.float32)


def test_there_is_every_pooling_of_torch_in_the_same_order() -> None:
    assert [*POOLINGS] == [*on_torch.POOLINGS]


@pytest.mark.parametrize("prompt_counts", [None, [2, 0, 3], [0, 1, 7], [3, 1, 9]], ids=str)
@pytest.mark.parametrize("mode", POOLINGS)
def test_a_pooling_equals_torchs(mode: str, prompt_counts: list[int] | None) -> None:
    layout = SequenceLayout(LENGTHS.tolist(), torch.device("cpu"), skipped=prompt_counts)
    padded = np.zeros((layout.rows, 5), dtype=np.float32)
    padded[:12] = STATES
    expected = on_torch.pool(torch.from_numpy(padded), layout, [mode]).numpy()
    counts = None if prompt_counts is None else np.array(prompt_counts)
    assert_allclose(pool_rows(STATES, LENGTHS, [mode], counts), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("mode", POOLINGS)
def test_a_text_has_the_same_bytes_alone(mode: str) -> None:
    together = pool_rows(STATES, LENGTHS, [mode, "mean"])
    for vector, rows in zip(together, np.split(STATES, [3, 4]), strict=True):
        assert np.array_equal(pool_rows(rows, np.array([len(rows)]), [mode, "mean"])[0], vector)


def test_positions_of_a_long_text_are_summed_exactly() -> None:
    states = np.ones((100_000, 1), dtype=np.float32)
    (vector,) = pool_rows(states, np.array([len(states)]), ["weightedmean"])
    assert_allclose(vector, 1, rtol=1e-4)


def test_a_batch_is_pooled_without_its_prompts() -> None:
    batch = Batch.of([[1, 2, 3], [4], [5, 6]], [1, 0, 2])
    pooled = pool_batch(STATES[:6], batch, ["mean", "lasttoken"])
    assert_allclose(pooled[0], np.concatenate([STATES[1:3].mean(axis=0), STATES[2]]), rtol=1e-6)
    assert np.array_equal(pooled[1], np.tile(STATES[3], 2))
    assert not pooled[2].any()
