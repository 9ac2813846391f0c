"""Tests of rotary positions as the kernels read them."""

import numpy as np
import torch

from embedwell_models.cpu_backend.rope_cache import RopeCache, paired_order
from embedwell_models.encoder.batch import Batch
from embedwell_models.positions.schemes import Alibi, Rotary, Scaling
from embedwell_models.torch_backend.rotary import Rotary as Twin
from embedwell_models.torch_backend.sequence_layout import SequenceLayout

PLAIN = Rotary(dim=8)


def turned(scheme: Rotary, x: torch.Tensor, length: int) -> torch.Tensor:
    """Rotate features (T, Dh), in the order of `paired_order`."""
    cos, sin = torch.from_numpy(RopeCache(scheme, x.shape[1]).tables(length)[:, : len(x)])
    x = x[:, paired_order(scheme, x.shape[1])]
    others = x.view(len(x), -1, 2).flip(2).flatten(1)
    return torch.addcmul(x * cos, others, sin)


def test_turns_are_those_of_the_twin() -> None:
    x = torch.randn(30, 16, generator=torch.Generator().manual_seed(2))
    layout = SequenceLayout([len(x)], torch.device("cpu"))
    for scheme in (
        Rotary(dim=16),
        Rotary(dim=6, base=100.0),
        Rotary(dim=10, interleaved=True),
        Rotary(dim=16, scaling=Scaling(kind="yarn", factor=4.0, original=8, magnitude=1.1)),
    ):
        padded = torch.cat([x, x.new_zeros(layout.rows - len(x), 16)])[:, None]
        expected = Twin(scheme).rotate(padded, layout)[: len(x), 0]
        found = turned(scheme, x, len(x))
        torch.testing.assert_close(found, expected[:, paired_order(scheme, 16)], atol=1e-6, rtol=0)


def test_the_features_of_a_pair_are_neighbours() -> None:
    assert paired_order(PLAIN, 10).tolist() == [0, 4, 1, 5, 2, 6, 3, 7, 8, 9]
    assert paired_order(Rotary(dim=8, interleaved=True), 10).tolist() == list(range(10))
    assert paired_order(Alibi(), 4).tolist() == [0, 1, 2, 3]


def test_tables_grow_with_the_longest_text() -> None:
    turns = RopeCache(PLAIN, 8)
    short = turns.tables(5)
    assert turns.tables(4) is short
    long = turns.tables(short.shape[1] + 1)
    assert long.shape[1] > short.shape[1]
    assert np.array_equal(long[:, : short.shape[1]], short)


def test_long_texts_of_longrope_have_rows_of_their_own() -> None:
    scaling = Scaling(kind="longrope", original=6, short=(1.0,) * 4, long=(2.0,) * 4)
    cache = RopeCache(Rotary(dim=8, scaling=scaling), 8)
    short = cache.tables(6)
    both = cache.tables(7)
    assert short.shape[1] == 6 and np.array_equal(both[:, :6], short)
    plain, halved = (
        RopeCache(Rotary(dim=8, scaling=Scaling(kind="linear", factor=factor)), 8).tables(7)
        for factor in (1.0, 2.0)
    )
    batch = Batch.of([[1] * 6, [1] * 7, [1]])
    expected = np.concatenate([plain[:, :6], halved[:, :7], plain[:, :1]], axis=1)
    assert np.array_equal(both[:, cache.rows(batch)], expected)
