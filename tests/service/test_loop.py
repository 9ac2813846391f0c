"""The engine's loop with a small model whose vectors are easy to know, and a socket in memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from service.engine.lines import GONE, Mail
from service.engine.loop import Loop
from service.engine.messages import (
    Failure,
    Ids,
    Job,
    Result,
    pack_jobs,
    unpack_outcomes,
)
from service.engine.scheduler import Scheduler
from service.engine.wire import Line

Floats = npt.NDArray[np.float32]
POISON, NAN, BIG, HUGE, BROKEN = 13, 14, 15, 16, 17


class Held:
    """Memory that a pass holds, counted while it does."""

    def __init__(self, all_held: set[object]) -> None:
        assert not all_held, "a failed pass holds its memory while its halves are tried"
        self.all_held = all_held
        all_held.add(id(self))

    def __del__(self) -> None:
        self.all_held.discard(id(self))


class Sum:
    """A text's vector is the sum of its ids; some ids make it fail."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.skips: list[int] = []
        self.held: set[object] = set()

    def encode(
        self, ids: Sequence[Ids], *, normalized: bool | None = None, skips: Sequence[int] = ()
    ) -> Floats:
        assert normalized is False
        self.skips += skips
        self.batches.append(len(ids))
        if any(POISON in row for row in ids):
            raise RuntimeError("poison")
        if any(BIG in row for row in ids) and len(ids) > 2:
            held = Held(self.held)
            raise torch.OutOfMemoryError(f"CUDA out of memory beside {held}")
        if any(HUGE in row for row in ids):
            raise torch.OutOfMemoryError("CUDA out of memory")
        if any(BROKEN in row for row in ids):
            raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
        sums = np.array([[row.sum()] for row in ids], dtype=np.float32)
        sums[[NAN in row for row in ids]] = np.nan
        return sums

    def hidden(self, ids: Sequence[Ids], layer: int | str | None = None) -> list[Floats]:
        return [np.full((len(row), 2), layer, dtype=np.float32) for row in ids]


class Memory(Line):
    """A line that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: dict[int, Result | Failure] = {}
        self.messages = 0

    def send(self, head: Any, body: Any = b"") -> None:
        verb, content = head
        assert verb == "outcomes"
        self.messages += 1
        for number, outcome in unpack_outcomes(content, body):
            assert number not in self.sent, "answered twice"
            self.sent[number] = outcome


class Post:
    """Lines that were given messages."""

    def __init__(self) -> None:
        self.received: Mail = []

    def receive(self, wait: bool) -> Mail:
        if wait and not self.received:
            raise EOFError
        found, self.received = self.received, []
        return found


class Rig:
    def __init__(self, budget: int = 100) -> None:
        self.line, self.other, self.post, self.model = Memory(), Memory(), Post(), Sum()
        self.loop = Loop(self.post, self.model, Scheduler(budget), 1.0)

    def send(
        self,
        number: int,
        *rows: list[int],
        output: str | int = "pooled",
        skips: Sequence[int] = (),
        line: Memory | None = None,
    ) -> None:
        job = Job(output, [np.array(row, dtype=np.int32) for row in rows], skips)
        self.post.received.append((line or self.line, pack_jobs([(number, job)])))

    def cancel(self, number: int) -> None:
        self.post.received.append((self.line, (["cancel", number], b"")))

    def run(self) -> None:
        """Until there is nothing to do."""
        with pytest.raises(EOFError):
            self.loop.run()

    def result(self, number: int) -> list[list[float]]:
        found = self.line.sent[number]
        assert isinstance(found, Result)
        rows: list[list[float]] = found.vectors.tolist()
        return rows

    def failure(self, number: int) -> Failure:
        found = self.line.sent[number]
        assert isinstance(found, Failure)
        return found


def test_jobs_that_wait_together_share_a_pass_and_keep_their_order() -> None:
    rig = Rig()
    rig.send(1, [1, 2, 3], [4])
    rig.send(2, [5, 5])
    rig.run()
    assert rig.model.batches == [3]
    assert rig.result(1) == [[6], [4]] and rig.result(2) == [[10]]


def test_what_a_pass_has_finished_is_one_message() -> None:
    rig = Rig()
    for number in range(5):
        rig.send(number, [number])
    rig.run()
    assert rig.line.messages == 1
    assert [rig.result(number) for number in range(5)] == [[[number]] for number in range(5)]


def test_what_comes_while_a_pass_runs_is_in_the_next() -> None:
    rig = Rig(budget=4)
    rig.send(1, [1, 1, 1], [2, 2, 2])
    rig.loop.turn()
    rig.send(2, [3])
    rig.run()
    assert rig.model.batches == [1, 2]
    assert rig.result(1) == [[3], [6]] and rig.result(2) == [[3]]


def test_a_job_larger_than_a_pass_is_answered_once_and_whole() -> None:
    rig = Rig(budget=4)
    rig.send(1, [1, 1, 1], [2, 2], [3], [4, 4])
    rig.run()
    assert len(rig.model.batches) > 1 and rig.result(1) == [[3], [4], [3], [8]]


def test_a_bad_text_fails_alone_and_is_named() -> None:
    rig = Rig()
    for number in range(8):
        rig.send(number, [number], [POISON] if number == 5 else [1])
    rig.run()
    assert rig.failure(5).index == 1 and "poison" in rig.failure(5).message
    assert all(rig.result(n) == [[n], [1]] for n in range(8) if n != 5)


def test_a_job_with_two_bad_texts_is_answered_once() -> None:
    rig = Rig()
    rig.send(1, [POISON], [1], [POISON])
    rig.run()
    assert rig.failure(1).index in (0, 2)


def test_a_batch_too_large_for_the_memory_is_split_when_its_own_memory_is_free(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig()
    rig.send(1, *[[BIG, number] for number in range(7)])
    rig.send(2, [1])
    rig.run()
    assert rig.result(1) == [[BIG + number] for number in range(7)] and rig.result(2) == [[1]]
    assert "8 texts of 15 tokens, in halves after OutOfMemoryError" in caplog.text
    assert "AssertionError" not in caplog.text


def test_a_text_too_large_for_the_memory_fails_alone_and_says_so() -> None:
    rig = Rig()
    rig.send(1, [HUGE])
    rig.send(2, [2], [3])
    rig.run()
    assert "memory of the device is too small" in rig.failure(1).message
    assert rig.result(2) == [[2], [3]]


def test_a_device_that_fails_ends_the_engine() -> None:
    rig = Rig()
    rig.send(1, [BROKEN], [1])
    with pytest.raises(torch.AcceleratorError):
        rig.loop.turn()


def test_a_vector_that_is_not_finite_is_an_error_and_never_an_answer() -> None:
    rig = Rig()
    rig.send(1, [1], [NAN])
    rig.send(2, [2])
    rig.run()
    assert "not finite" in rig.failure(1).message and rig.failure(1).index == 1
    assert rig.result(2) == [[2]]


def test_a_cancelled_job_is_neither_computed_nor_answered() -> None:
    rig = Rig()
    rig.send(1, [1])
    rig.send(2, [2])
    rig.cancel(1)
    rig.run()
    assert rig.model.batches == [1] and set(rig.line.sent) == {2}
    assert not rig.loop._open, "it would be kept for ever"


@pytest.mark.parametrize("layer", [0, 2])
def test_hidden_states_come_back_in_a_row(layer: int) -> None:
    rig = Rig()
    rig.send(1, [1, 2], [3], output=layer)
    rig.run()
    assert rig.result(1) == [[layer, layer]] * 3


def test_each_text_keeps_what_is_not_pooled_of_it() -> None:
    rig = Rig()
    rig.send(1, [1, 1, 1], [2], skips=[2, 0])
    rig.send(2, [3, 3])
    rig.run()
    assert rig.model.batches == [3]
    assert rig.model.skips == [2, 0, 0] or sorted(rig.model.skips) == [0, 0, 2]


def test_two_lines_may_number_their_jobs_alike_and_share_a_pass() -> None:
    rig = Rig()
    rig.send(1, [1])
    rig.send(1, [2], line=rig.other)
    rig.run()
    assert rig.model.batches == [2]
    assert rig.result(1) == [[1]]
    answer = rig.other.sent[1]
    assert isinstance(answer, Result) and answer.vectors.tolist() == [[2]]


def test_a_line_that_is_gone_takes_its_jobs_with_it_and_no_other() -> None:
    rig = Rig()
    rig.send(1, [1])
    rig.send(1, [2], line=rig.other)
    rig.send(2, [3], [4], line=rig.other)
    rig.post.received.append((rig.other, GONE))
    rig.run()
    assert rig.model.batches == [1] and set(rig.line.sent) == {1} and not rig.other.sent
    assert not rig.loop._open, "it would be kept for ever"
