"""Tests of where sequences lie in a packed batch."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from embedwell_models.encoder.batch_shape import rounded_rows
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from tests.models.meta import META

CPU = torch.device("cpu")
lengths = st.lists(st.integers(1, 600), min_size=1, max_size=40)


@given(lengths)
def test_positions_count_from_zero_in_each_sequence(lengths: list[int]) -> None:
    layout = SequenceLayout(lengths, CPU)
    counted = [position for length in lengths for position in range(length)]
    assert layout.positions[: layout.tokens].tolist() == counted
    assert layout.positions[layout.tokens :].tolist() == [0] * (layout.rows - layout.tokens)


@given(lengths)
def test_sequences_lie_one_after_another(lengths: list[int]) -> None:
    layout = SequenceLayout(lengths, CPU)
    assert layout.starts.tolist() == [sum(lengths[:i]) for i in range(len(lengths))]
    assert layout.lengths.tolist() == lengths
    assert layout.tokens == sum(lengths)
    assert layout.rows == rounded_rows(layout.tokens)


@given(lengths)
def test_every_token_has_exactly_one_slot(lengths: list[int]) -> None:
    layout = SequenceLayout(lengths, CPU)
    targets = torch.cat([group.targets for group in layout.groups])
    assert sorted(targets.tolist()) == list(range(layout.tokens))
    assert all(torch.equal(group.rows[group.slots], group.targets) for group in layout.groups)


@given(lengths)
def test_the_mask_is_zero_for_tokens_and_minus_infinity_for_padding(lengths: list[int]) -> None:
    for group in SequenceLayout(lengths, CPU).groups:
        mask = torch.full((group.count * group.length,), float("-inf"))
        mask[group.slots] = 0
        assert torch.equal(group.mask, mask.view(group.count, 1, 1, group.length))


def test_the_mask_has_the_precision_of_the_attention() -> None:
    (group,) = SequenceLayout([3], CPU, torch.bfloat16).groups
    assert group.mask.dtype == torch.bfloat16


@given(lengths)
def test_a_block_is_as_long_as_its_own_sequences_need(lengths: list[int]) -> None:
    for group in SequenceLayout(lengths, CPU).groups:
        held = (group.mask == 0).sum(dim=-1).flatten()
        assert group.length % 8 == 0
        assert ((group.length - 8 < held) & (held <= group.length)).all()


@given(lengths)
def test_a_block_is_as_long_with_others_as_alone(lengths: list[int]) -> None:
    for device in (CPU, META):
        alone = Counter(SequenceLayout([n], device).groups[0].length for n in lengths)
        assert alone == {
            group.length: group.count for group in SequenceLayout(lengths, device).groups
        }


def test_on_other_devices_blocks_are_of_few_lengths() -> None:
    lengths = {n: SequenceLayout([n], META).groups[0].length for n in range(1, 513)}
    assert len(set(lengths.values())) == 11
    assert all(n <= length < n + (16 if n <= 64 else 64) for n, length in lengths.items())


@given(lengths)
def test_a_slot_shows_its_own_sequence(lengths: list[int]) -> None:
    layout = SequenceLayout(lengths, CPU)
    for group in layout.groups:
        for row, mask in zip(group.rows.view(group.count, -1), group.mask, strict=True):
            held = row[mask.flatten() == 0]
            assert held.tolist() == list(range(int(held[0]), int(held[0]) + len(held)))
            assert int(held[0]) in layout.starts.tolist()


@pytest.mark.parametrize(
    ("tokens", "rows"),
    [(1, 4), (4, 4), (5, 8), (32, 32), (33, 48), (48, 48), (512, 512), (513, 576), (2049, 2112)],
)
def test_rows_are_rounded_in_growing_steps(tokens: int, rows: int) -> None:
    assert rounded_rows(tokens) == rows


def test_rounding_makes_few_sizes_of_many() -> None:
    assert all(rounded_rows(tokens) >= tokens for tokens in range(1, 4097))
    assert len({rounded_rows(tokens) for tokens in range(1, 4097)}) < 100
