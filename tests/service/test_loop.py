"""The engine's loop with a small model whose vectors are easy to know, and a socket in memory."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zmq

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

Floats = npt.NDArray[np.float32]
POISON, NAN, BIG = 13, 14, 15


class Sum:
    """A text's vector is the sum of its ids; some ids make it fail."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def encode(self, ids: Sequence[Ids], *, normalized: bool | None = None) -> Floats:
        assert normalized is False
        self.batches.append(len(ids))
        if any(POISON in row for row in ids):
            raise RuntimeError("poison")
        if any(BIG in row for row in ids) and len(ids) > 2:
            raise MemoryError
        sums = np.array([[row.sum()] for row in ids], dtype=np.float32)
        sums[[NAN in row for row in ids]] = np.nan
        return sums

    def hidden(self, ids: Sequence[Ids], layer: int | str | None = None) -> list[Floats]:
        return [np.full((len(row), 2), layer, dtype=np.float32) for row in ids]


class Socket:
    def __init__(self) -> None:
        self.received: list[list[bytes]] = []
        self.sent: dict[int, Result | Failure] = {}
        self.messages: list[bytes] = []

    def recv_multipart(self, flags: int) -> list[bytes]:
        if not self.received:
            raise zmq.Again
        return self.received.pop(0)

    def send_multipart(self, frames: list[Any], flags: int) -> None:
        client, verb, *rest = frames
        assert verb == b"outcomes"
        self.messages.append(client)
        for number, outcome in unpack_outcomes([bytes(frame) for frame in rest]):
            assert number not in self.sent, "answered twice"
            self.sent[number] = outcome


class Rig:
    def __init__(self, budget: int = 100) -> None:
        self.socket, self.model = Socket(), Sum()
        self.scheduler: Scheduler[tuple[bytes, int]] = Scheduler(budget)
        self.loop = Loop(self.socket, self.model, self.scheduler, None, 1.0)  # type: ignore[arg-type]

    def send(
        self, number: int, *rows: list[int], output: str | int = "pooled", client: bytes = b"me"
    ) -> None:
        job = Job(output, [np.array(row, dtype=np.int32) for row in rows])
        frames = [bytes(frame) for frame in pack_jobs([(number, job)])]
        self.socket.received.append([client, b"jobs", *frames])

    def cancel(self, number: int) -> None:
        self.socket.received.append([b"me", b"cancel", b"%d" % number])

    def run(self) -> None:
        self.loop._receive()
        while self.scheduler:
            self.loop._work(self.scheduler.next())

    def result(self, number: int) -> list[list[float]]:
        found = self.socket.sent[number]
        assert isinstance(found, Result)
        rows: list[list[float]] = found.vectors.tolist()
        return rows

    def failure(self, number: int) -> Failure:
        found = self.socket.sent[number]
        assert isinstance(found, Failure)
        return found


def test_jobs_that_wait_together_share_a_pass_and_keep_their_order() -> None:
    rig = Rig()
    rig.send(1, [1, 2, 3], [4])
    rig.send(2, [5, 5])
    rig.run()
    assert rig.model.batches == [3]
    assert rig.result(1) == [[6], [4]] and rig.result(2) == [[10]]


def test_what_a_pass_has_finished_is_one_message_for_each_client() -> None:
    rig = Rig()
    for number, client in enumerate((b"me", b"you", b"me", b"you", b"me")):
        rig.send(number, [number], client=client)
    rig.run()
    assert sorted(rig.socket.messages) == [b"me", b"you"]
    assert [rig.result(number) for number in range(5)] == [[[number]] for number in range(5)]


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


def test_a_batch_too_large_for_the_memory_is_split() -> None:
    rig = Rig()
    rig.send(1, *[[BIG, number] for number in range(7)])
    rig.run()
    assert rig.result(1) == [[BIG + number] for number in range(7)]


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
    assert rig.model.batches == [1] and set(rig.socket.sent) == {2}


@pytest.mark.parametrize("layer", [0, 2])
def test_hidden_states_come_back_in_a_row(layer: int) -> None:
    rig = Rig()
    rig.send(1, [1, 2], [3], output=layer)
    rig.run()
    assert rig.result(1) == [[layer, layer]] * 3


def test_those_who_were_answered_together_may_share_the_next_pass_too() -> None:
    rig = Rig()
    rig.loop._until = time.perf_counter() + 10
    late = [2, 3]

    def arrives(wait: int) -> bool:
        assert 0 <= wait <= 1
        if late:
            rig.send(late.pop(0), [1])
            return True
        return False

    rig.send(1, [1])
    rig.loop._receive()
    rig.loop._linger(arrives)
    rig.run()
    assert rig.model.batches == [3]


def test_a_request_that_finds_the_engine_idle_is_not_held_up() -> None:
    rig = Rig()

    def arrives(wait: int) -> bool:
        raise AssertionError("waited")

    for number in (1, 2):
        rig.send(number, [1])
        rig.run()
        rig.loop._linger(arrives)


def test_waiting_for_company_ends_though_more_and_more_come() -> None:
    rig = Rig()
    start = time.perf_counter()
    rig.loop._until = start + 0.02
    rig.loop._linger(lambda wait: True)
    assert 0.02 <= time.perf_counter() - start < 0.1


def test_the_wait_for_company_is_a_part_of_the_last_pass_and_counted_from_its_end() -> None:
    rig = Rig()
    rig.send(1, [1], [2])
    start = time.perf_counter()
    rig.run()
    assert start < rig.loop._until < start + 1.2 * (time.perf_counter() - start)
