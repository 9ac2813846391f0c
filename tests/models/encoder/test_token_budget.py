"""Batches within a budget of tokens."""

from hypothesis import given
from hypothesis import strategies as st

from embedwell_models.encoder.token_budget import batches_of_similar_length


def test_texts_of_similar_length_share_a_batch() -> None:
    assert [*batches_of_similar_length([5, 1, 5, 2], 6)] == [[1, 3], [0], [2]]


@given(lengths=st.lists(st.integers(0, 9)), budget=st.integers(1, 12))
def test_each_text_is_in_one_batch_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = [*batches_of_similar_length(lengths, budget)]
    assert sorted(index for batch in batches for index in batch) == [*range(len(lengths))]
    for batch in batches:
        assert len(batch) == 1 or sum(lengths[index] for index in batch) <= budget
