"""Texts shared among workers: order and failures."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from embedwell_bulk import BulkError
from embedwell_bulk.dispatch import Dispatcher, WorkerFailed, cut_into_calls
from embedwell_models.vectors import Floats

TEXTS = ["a" * length for length in range(1, 21)]


class LengthWorker:
    """Embeds a text as its length, a call at a time; raises the errors of `failures` first."""

    def __init__(self, *failures: Exception, max_running: int = 1) -> None:
        self.failures, self.max_running, self.in_flight = list(failures), max_running, 0
        self.calls: list[Sequence[str]] = []
        self.events: list[str] = []

    @property
    def free_at(self) -> float:
        return 0.0 if self.in_flight < self.max_running else float("inf")

    def submit(self, texts: Sequence[str]) -> "Future[Any]":
        future: Future[Any] = Future()
        self.calls.append(texts)
        future.set_result(texts)
        return future

    def result(self, future: "Future[Any]") -> tuple[Floats, Mapping[int, str]]:
        if self.failures:
            raise self.failures.pop(0)
        lengths = np.array([[len(text)] for text in future.result()], dtype=np.float32)
        return lengths, {i: "ten" for i, text in enumerate(future.result()) if len(text) == 10}

    def note_success(self) -> None:
        self.events.append("succeeded")

    def note_failure(self) -> None:
        self.events.append("failed")


class LaggingWorker(LengthWorker):
    """Ends a call when it gets the next one, or when it is asked to."""

    def __init__(self) -> None:
        super().__init__(max_running=2)
        self.futures: list[Future[Any]] = []

    def submit(self, texts: Sequence[str]) -> "Future[Any]":
        if self.futures:
            self.end_call()
        self.calls.append(texts)
        self.futures.append(Future())
        return self.futures[-1]

    def end_call(self) -> None:
        self.futures[-1].set_result(self.calls[-1])


def dispatch(*workers: LengthWorker, **options: Any) -> Dispatcher:
    bounds = {"max_texts": 8, "max_characters": 1000, "failure_timeout": 60.0}
    return Dispatcher(workers, {"dimension": 1}, **{**bounds, **options})


def embed(*workers: LengthWorker, **options: Any) -> tuple[Floats, Mapping[int, str], list[int]]:
    counts: list[int] = []
    return *dispatch(*workers, **options).begin(TEXTS, counts.append).result(), counts


def test_the_longest_texts_are_first_and_each_row_has_its_vector() -> None:
    worker = LengthWorker()
    vectors, rejected, counts = embed(worker)
    assert worker.calls == [TEXTS[16:], TEXTS[8:16], TEXTS[:8]]
    np.testing.assert_array_equal(vectors[:, 0], range(1, 21))
    assert dict(rejected) == {9: "ten"} and counts == [4, 8, 8] and worker.in_flight == 0


def test_a_worker_that_is_not_free_gets_no_texts() -> None:
    busy, free = LengthWorker(max_running=0), LengthWorker()
    embed(busy, free)
    assert not busy.calls and len(free.calls) == 3


def test_texts_whose_worker_failed_are_computed_again() -> None:
    worker = LengthWorker(WorkerFailed("busy"))
    vectors, _, counts = embed(worker)
    np.testing.assert_array_equal(vectors[:, 0], range(1, 21))
    assert sum(counts) == 20 and worker.events.count("failed") == 1


def test_an_error_that_no_other_attempt_mends_ends_the_run() -> None:
    with pytest.raises(BulkError, match="forbidden"):
        embed(LengthWorker(BulkError("forbidden")))


def test_a_run_ends_when_no_worker_has_succeeded_for_long() -> None:
    with pytest.raises(BulkError, match="still busy"):
        embed(LengthWorker(*[WorkerFailed("still busy")] * 3), failure_timeout=0.0)


class StartingWorker(LengthWorker):
    """Is never free, and says each time that it will be soon."""

    @property
    def free_at(self) -> float:
        return time.monotonic() + 0.01


def test_a_run_ends_when_no_worker_becomes_free() -> None:
    with pytest.raises(BulkError, match="no worker accepts a call"):
        embed(StartingWorker(), failure_timeout=0.05)


def test_the_next_texts_begin_while_the_last_ones_are_computed() -> None:
    worker = LaggingWorker()
    dispatcher = dispatch(worker)
    first = dispatcher.begin(TEXTS, lambda _: None)
    assert len(worker.calls) == 3 and not first.done()
    second = dispatcher.begin(TEXTS[:5], lambda _: None)
    assert worker.calls[3:] == [TEXTS[:5]] and not second.done()
    np.testing.assert_array_equal(first.result()[0][:, 0], range(1, 21))
    assert first.done() and not second.done()
    worker.end_call()
    np.testing.assert_array_equal(second.result()[0][:, 0], range(1, 6))


@pytest.mark.parametrize(
    ("lengths", "calls"),
    [
        ([], []),
        ([200], [range(1)]),
        ([1, 2, 3, 4, 5], [range(3), range(3, 5)]),
        ([1, 30, 69, 70, 200, 300], [range(3), range(3, 4), range(4, 5), range(5, 6)]),
        ([50, 50, 50], [range(2), range(2, 3)]),
    ],
)
def test_a_call_has_few_long_texts_or_several_short_ones(
    lengths: list[int], calls: list[range]
) -> None:
    assert cut_into_calls(lengths, max_texts=3, max_characters=100) == calls
