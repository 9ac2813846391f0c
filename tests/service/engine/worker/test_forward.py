"""Tests of a forward pass of a model that fails on some texts."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from embedwell.engine.wire.messages import TokenIds
from embedwell.engine.worker.forward import BatchTexts, BatchVectors, TextFailure, forward
from embedwell_models.encoder.batch import FlatRows
from embedwell_models.vectors import Floats
from tests.service.rig import BIG, BROKEN, HUGE, NAN, POISON, SumModel, ids


def run(model: SumModel, *rows: list[int]) -> list[float | TextFailure]:
    """Compute the sum of each row."""
    vectors = forward(model, BatchTexts("dense", FlatRows.of([ids(row) for row in rows])))
    failures = vectors.failures or {}
    return [
        failures.get(index) or float(each.rows[0, 0])
        for index, each in enumerate(vectors.split([1] * len(rows)))
    ]


def failures(results: Sequence[float | TextFailure]) -> dict[int, TextFailure]:
    return {
        index: result for index, result in enumerate(results) if isinstance(result, TextFailure)
    }


def test_a_pass_returns_the_vector_of_each_text() -> None:
    assert run(SumModel(), [1, 2], [3]) == [3, 3]


def test_a_bad_text_fails_alone_and_only_the_log_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    results = run(SumModel(), *([number] for number in range(5)), [POISON], [6], [7])
    assert results[:5] == [0, 1, 2, 3, 4] and results[6:] == [6, 7]
    assert [*failures(results)] == [5]
    assert "poison" not in failures(results)[5].message and "poison" in caplog.text


def test_a_batch_too_large_for_the_memory_is_split_when_its_own_memory_is_free(
    caplog: pytest.LogCaptureFixture,
) -> None:
    results = run(SumModel(), *([BIG, number] for number in range(7)), [1])
    assert results == [*range(BIG, BIG + 7), 1]
    assert "8 texts of 15 tokens in halves after OutOfMemoryError" in caplog.text
    assert "AssertionError" not in caplog.text


def test_a_text_too_large_for_the_memory_fails_alone_and_says_so() -> None:
    results = run(SumModel(), [HUGE], [2], [3])
    assert results[1:] == [2, 3]
    assert "device has too little memory" in failures(results)[0].message


class LimitedMemory(SumModel):
    """Has memory for one text per pass."""

    def encode(
        self,
        ids: Sequence[TokenIds],
        *,
        normalized: bool | None = None,
        prompt_token_counts: Sequence[int] = (),
    ) -> Floats:
        if len(ids) > 1 or HUGE in ids[0]:
            raise MemoryError("there is not enough")
        return super().encode(ids, normalized=normalized, prompt_token_counts=prompt_token_counts)


def test_batches_too_large_for_the_memory_of_the_host_are_split() -> None:
    results = run(LimitedMemory(), [1], [HUGE], [3])
    assert [results[0], results[2]] == [1, 3]
    assert "device has too little memory" in failures(results)[1].message


def test_a_device_that_fails_ends_the_engine() -> None:
    with pytest.raises(torch.AcceleratorError):
        run(SumModel(), [BROKEN], [1])


def test_a_vector_that_is_not_finite_is_a_failure() -> None:
    results = run(SumModel(), [1], [NAN], [2])
    assert (results[0], results[2]) == (1, 2)
    failure = failures(results)[1]
    assert "NaN or infinity" in failure.message and not failure.finite


def test_of_texts_with_several_rows_only_the_bad_ones_fail() -> None:
    texts = [ids(row) for row in ([1, 2], [POISON], [], [3])]
    states = forward(PoisonedStates(), BatchTexts(1, FlatRows.of(texts)))
    first, bad, empty, last = states.split([1] * 4)
    assert first.rows.tolist() == [[1, 1], [1, 1]] and last.rows.tolist() == [[1, 1]]
    assert not len(empty.rows) and not empty.failures
    assert bad.failures and not bad.failures[0].finite


class PoisonedStates(SumModel):
    """The states of one id are not finite."""

    def hidden(self, ids: Sequence[TokenIds], layer: int | str | None = None) -> list[Floats]:
        states = super().hidden(ids, layer)
        for row, each in zip(ids, states, strict=True):
            each[row == POISON] = np.nan
        return states


def test_vectors_are_joined_as_they_were_split() -> None:
    rows, why = np.arange(6, dtype=np.float32)[:, None], TextFailure("bad")
    vectors = BatchVectors(rows, [2, 1, 0, 3], {2: why})
    first, second = vectors.split([1, 3])
    assert first.failures == {} and second.failures == {1: why}
    joined = BatchVectors.join([first, second])
    assert joined.rows.tolist() == rows.tolist() and joined.row_counts == [2, 1, 0, 3]
    assert joined.failures == {2: why}
