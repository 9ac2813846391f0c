"""Tests of batches of token ids."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedwell_models.config.model_spec import LARGEST
from embedwell_models.encoder.batch import (
    Batch,
    FlatRows,
    batches_of_similar_length,
    truncate_after,
    without_trailing,
)


def test_sequences_of_any_integers_lie_one_after_another() -> None:
    batch = Batch.of([[5, 6, 7], np.array([8], dtype=np.int32), [9, 5]])
    assert batch.ids.tolist() == [5, 6, 7, 8, 9, 5] and batch.ids.dtype == np.int64
    assert batch.lengths.tolist() == [3, 1, 2] and batch.lengths.dtype == np.int64
    assert batch.positions.tolist() == [0, 1, 2, 0, 0, 1]


def test_numbers_that_are_not_whole_are_no_ids() -> None:
    for rows in ([[1], [1.5]], [np.array([1.0])]):
        with pytest.raises(TypeError, match="token ids must be whole numbers"):
            Batch.of(rows)  # type: ignore[arg-type]
    assert Batch.of([[], [3]]).ids.tolist() == [3]


def test_what_the_tables_hold_is_accepted() -> None:
    Batch.of([[0, 9], [3, 4, 5]]).check_bounds(10, 3)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1], [10]], "token ids must be 0 to 9"),
        ([[1, -1]], "token ids must be 0 to 9"),
        ([[1, 2, 3, 4]], "a sequence must have 1 to 3 tokens"),
        ([[1], []], "a sequence must have 1 to 3 tokens"),
    ],
)
def test_what_no_table_holds_is_refused(rows: list[list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Batch.of(rows).check_bounds(10, 3)


def test_a_model_may_need_several_tokens() -> None:
    with pytest.raises(ValueError, match="a sequence must have 2 to 3 tokens"):
        Batch.of([[1, 2], [1]]).check_bounds(10, 3, min_tokens=2)


def test_ids_at_the_end_of_a_sequence_are_not_attended_to() -> None:
    batch = Batch.of([[5, 9, 7, 9, 9], [9, 5], [9, 9], [7, 9]])
    limited = batch.without_attention_to_trailing(9)
    # Those inside of a sequence are, and so are those of one that has no others.
    assert limited.key_counts is not None and limited.key_counts.tolist() == [3, 2, 2, 1]
    assert limited.ids is batch.ids and batch.key_counts is None
    assert batch.without_attention_to_trailing(6) is batch, "documents go the fast way of a GPU"


@pytest.mark.parametrize(
    ("row", "kept"), [([5, 9, 7, 9, 9], [5, 9, 7]), ([9, 5], [9, 5]), ([9, 9], [9]), ([], [])]
)
def test_ids_at_the_end_of_a_sequence_are_left_out(row: list[int], kept: list[int]) -> None:
    assert without_trailing(row, 9) == kept


def test_a_text_ends_after_the_first_id_of_its_end_or_its_largest() -> None:
    assert truncate_after([3, 9, 4, 9], 9) == truncate_after([3, 9, 4], LARGEST) == [3, 9]
    assert truncate_after([3, 4], 9) == [3, 4] and truncate_after([], LARGEST) == []


def test_parts_have_few_sequences_each_with_all_that_belongs_to_them() -> None:
    batch = replace(
        Batch.of([[5, 6, 7], [8], [9, 5]], [1, 0, 2]),
        key_counts=np.array([3, 1, 1]),
        token_vectors=np.arange(6, dtype=np.float32)[:, None],
    )
    first, second = batch.parts(2)
    assert (first.ids.tolist(), second.ids.tolist()) == ([5, 6, 7, 8], [9, 5])
    assert (first.lengths.tolist(), second.lengths.tolist()) == ([3, 1], [2])
    assert (first.prompt_token_counts.tolist(), second.prompt_token_counts.tolist()) == (
        [1, 0],
        [2],
    )
    assert second.key_counts is not None and second.key_counts.tolist() == [1]
    assert second.token_vectors is not None and second.token_vectors.tolist() == [[4], [5]]


def test_flat_rows_are_the_sequences_of_one_array() -> None:
    arrays = [np.array(row, dtype=np.int32) for row in ([1, 2], [], [3], [4, 5, 6])]
    rows = FlatRows.of(arrays)
    assert len(rows) == 4
    assert [row.tolist() for row in rows] == [[1, 2], [], [3], [4, 5, 6]]
    assert rows[-1].tolist() == [4, 5, 6] and rows[1:3].ids.tolist() == [3]
    assert np.shares_memory(rows.part(2, 4).ids, rows.ids) and rows.part(2, 4).lengths == [1, 3]
    joined = FlatRows.join([rows.part(3, 4), rows.part(0, 1)])
    assert (joined.ids.tolist(), joined.lengths) == ([4, 5, 6, 1, 2], [3, 2])


def test_a_batch_of_flat_rows_is_that_of_their_sequences() -> None:
    arrays = [np.array(row, dtype=np.int32) for row in ([1, 2], [3], [4, 5, 6])]
    for counts in ((), [1, 0, 2]):
        flat, listed = Batch.of(FlatRows.of(arrays), counts), Batch.of(arrays, counts)
        for name in ("ids", "lengths", "prompt_token_counts"):
            one, other = getattr(flat, name), getattr(listed, name)
            assert one.dtype == other.dtype and one.tolist() == other.tolist()


def test_texts_of_similar_length_share_a_batch() -> None:
    assert [*batches_of_similar_length([5, 1, 5, 2], 6)] == [[1, 3], [0], [2]]
    assert [*batches_of_similar_length([3, 3], 6)] == [[0, 1]], "as much as the budget"


@given(lengths=st.lists(st.integers(0, 9)), budget=st.integers(1, 12))
def test_each_text_is_in_one_batch_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = [*batches_of_similar_length(lengths, budget)]
    assert sorted(index for batch in batches for index in batch) == [*range(len(lengths))]
    for batch in batches:
        assert len(batch) == 1 or sum(lengths[index] for index in batch) <= budget
