"""Tests of the receiver, with connections in memory."""

import threading
from collections.abc import Iterator

import pytest

from service.engine.protocol.messages import Job, pack_jobs
from service.engine.worker.connections import CLOSED, ReceivedMessages
from service.engine.worker.job_table import JobTable
from service.engine.worker.receiver import Receiver
from tests.service.rig import Memory, ids

LINE = Memory()


class Slow:
    """Lines on which nothing comes for whoever waits, until it is let go; keeps who waited."""

    def __init__(self, *messages: ReceivedMessages) -> None:
        self.messages, self.waits = list(messages), list[bool]()
        self.waiting, self.free = threading.Event(), threading.Event()

    def receive(self, wait: bool) -> ReceivedMessages:
        self.waits.append(wait)
        if wait:
            self.waiting.set()
            assert self.free.wait(timeout=120)
        return self.messages.pop(0) if self.messages else []


@pytest.fixture
def job_table() -> JobTable:
    return JobTable()


@pytest.fixture
def reading(job_table: JobTable) -> Iterator[tuple[Slow, Receiver]]:
    """A thread waits for a job."""
    connections = Slow(job(1))
    receiver = Receiver(connections, job_table, threading.Lock())
    thread = threading.Thread(target=receiver.wait)
    thread.start()
    assert connections.waiting.wait(timeout=120)
    yield connections, receiver
    connections.free.set()
    thread.join()


def job(number: int) -> ReceivedMessages:
    return [(LINE, pack_jobs([(number, Job("pooled", [ids([1])]))]))]


def test_jobs_come_in_and_go_with_who_forgets_them_or_leaves(job_table: JobTable) -> None:
    forgotten: ReceivedMessages = [(LINE, (["cancel", 1], b""))]
    receiver = Receiver(
        Slow(job(1) + job(2), forgotten, [(LINE, CLOSED)]), job_table, threading.Lock()
    )
    for left in (2, 1, 0):
        receiver.poll()
        assert len(job_table) == left


def test_who_has_work_waits_for_nothing(job_table: JobTable) -> None:
    connections = Slow(job(1))
    connections.free.set()
    receiver = Receiver(connections, job_table, threading.Lock())
    receiver.poll_or_wait()
    receiver.poll_or_wait()
    assert connections.waits == [True, False]


def test_who_has_work_does_not_wait_for_another_that_reads(
    job_table: JobTable, reading: tuple[Slow, Receiver]
) -> None:
    connections, receiver = reading
    job_table.add((LINE, 2), Job("pooled", [ids([1])]))
    receiver.poll_or_wait()
    receiver.poll()
    assert connections.waits == [True]


def test_who_has_none_takes_what_came_to_another_that_read(
    job_table: JobTable, reading: tuple[Slow, Receiver]
) -> None:
    connections, receiver = reading
    threading.Timer(0.1, connections.free.set).start()
    receiver.poll_or_wait()
    assert connections.waits == [True, False] and len(job_table) == 1


class Late:
    """Lines on which a job comes when they are asked for the third time; keeps who waited."""

    def __init__(self) -> None:
        self.waits = list[bool]()

    def receive(self, wait: bool) -> ReceivedMessages:
        self.waits.append(wait)
        return job(1) if len(self.waits) == 3 else []


def test_who_has_nothing_to_do_looks_again_before_it_sleeps(job_table: JobTable) -> None:
    connections = Late()
    Receiver(connections, job_table, threading.Lock(), linger=20).poll_or_wait()
    assert connections.waits == [False, False, False, False] and len(job_table) == 1


def test_who_has_looked_long_enough_sleeps(job_table: JobTable) -> None:
    connections = Late()
    Receiver(connections, job_table, threading.Lock(), linger=0.0).poll_or_wait()
    assert connections.waits == [True]
    quiet = Slow()
    quiet.free.set()
    Receiver(quiet, job_table, threading.Lock(), linger=0.05).poll_or_wait()
    assert quiet.waits[-1] and not any(quiet.waits[:-1])


def test_who_stands_in_for_another_sleeps_at_once(job_table: JobTable) -> None:
    connections = Slow()
    connections.free.set()
    Receiver(connections, job_table, threading.Lock(), linger=20).wait()
    assert connections.waits == [True]
