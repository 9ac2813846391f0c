"""Tests of a forward pass of a model that fails on some texts."""

from collections.abc import Sequence

import pytest
import torch

from embedwell.engine.wire.messages import Failure, TokenIds
from embedwell.engine.worker.forward import BatchText, forward
from embedwell.engine.worker.scheduler import QueuedText
from embedwell_models.vectors import Floats
from tests.service.rig import BIG, BROKEN, HUGE, NAN, POISON, SumModel, ids


def run(model: SumModel, *rows: list[int]) -> list[float | Failure]:
    """Compute the sum of each row, as the text of its own job at the index of the row."""
    texts = [
        BatchText(QueuedText(number, number, len(row), "dense"), ids(row), 0, "dense", False)
        for number, row in enumerate(rows)
    ]
    return [_to_float(result) for result in forward(model, texts)]


def _to_float(result: Floats | Failure) -> float | Failure:
    return result if isinstance(result, Failure) else float(result[0])


def failures(results: Sequence[float | Failure]) -> dict[int, Failure]:
    return {index: result for index, result in enumerate(results) if isinstance(result, Failure)}


def test_a_pass_returns_the_vector_of_each_text() -> None:
    assert run(SumModel(), [1, 2], [3]) == [3, 3]


def test_a_bad_text_fails_alone_and_only_the_log_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    results = run(SumModel(), *([number] for number in range(5)), [POISON], [6], [7])
    assert results[:5] == [0, 1, 2, 3, 4] and results[6:] == [6, 7]
    assert failures(results)[5].index == 5
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
    assert "NaN or infinity" in failure.message and failure.index == 1 and not failure.finite


def test_a_vector_that_is_not_finite_is_named_by_its_index_in_the_job() -> None:
    (failure,) = forward(
        SumModel(), [BatchText(QueuedText(0, 4, 1, "dense"), ids([NAN]), 0, "dense", False)]
    )
    assert isinstance(failure, Failure) and failure.index == 4
