"""Tests of the receiver, with fake connections."""

import threading
from collections.abc import Iterator

import pytest

from embedwell.engine.wire.messages import Job, pack_jobs
from embedwell.engine.worker.connections import CLOSED, ReceivedMessages
from embedwell.engine.worker.job_table import JobTable
from embedwell.engine.worker.receiver import Receiver
from embedwell_models.encoder.batch import FlatRows
from tests.service.rig import FakeConnection, ids

CONNECTION = FakeConnection()


class BlockingConnections:
    """Connections on which a waiting receiver blocks until the test releases it."""

    def __init__(self, *messages: ReceivedMessages) -> None:
        self.messages, self.waits = list(messages), list[bool]()
        self.waiting, self.released = threading.Event(), threading.Event()

    def receive(self, wait: bool) -> ReceivedMessages:
        self.waits.append(wait)
        if wait:
            self.waiting.set()
            assert self.released.wait(timeout=120)
        return self.messages.pop(0) if self.messages else []


@pytest.fixture
def job_table() -> JobTable:
    return JobTable()


@pytest.fixture
def reading(job_table: JobTable) -> Iterator[tuple[BlockingConnections, Receiver]]:
    """A thread waits for a job."""
    connections = BlockingConnections(job(1))
    receiver = Receiver(connections, job_table, threading.Lock())
    thread = threading.Thread(target=receiver.wait)
    thread.start()
    assert connections.waiting.wait(timeout=120)
    yield connections, receiver
    connections.released.set()
    thread.join()


def job(number: int) -> ReceivedMessages:
    return [(CONNECTION, pack_jobs([(number, Job("dense", FlatRows.of([ids([1])])))]))]


def test_jobs_are_added_and_removed_when_cancelled_or_disconnected(job_table: JobTable) -> None:
    cancellation: ReceivedMessages = [(CONNECTION, (["cancel", 1], b""))]
    receiver = Receiver(
        BlockingConnections(job(1) + job(2), cancellation, [(CONNECTION, CLOSED)]),
        job_table,
        threading.Lock(),
    )
    for remaining in (2, 1, 0):
        receiver.poll()
        assert len(job_table) == remaining


def test_a_thread_with_work_does_not_wait_for_messages(job_table: JobTable) -> None:
    connections = BlockingConnections(job(1))
    connections.released.set()
    receiver = Receiver(connections, job_table, threading.Lock())
    receiver.poll_or_wait()
    receiver.poll_or_wait()
    assert connections.waits == [True, False]


def test_a_thread_with_work_does_not_wait_for_another_that_reads(
    job_table: JobTable, reading: tuple[BlockingConnections, Receiver]
) -> None:
    connections, receiver = reading
    job_table.add((CONNECTION, 2), Job("dense", FlatRows.of([ids([1])])))
    receiver.poll_or_wait()
    receiver.poll()
    assert connections.waits == [True]


def test_a_thread_without_work_waits_for_another_that_reads(
    job_table: JobTable, reading: tuple[BlockingConnections, Receiver]
) -> None:
    connections, receiver = reading
    threading.Timer(0.1, connections.released.set).start()
    receiver.poll_or_wait()
    assert connections.waits == [True, False] and len(job_table) == 1


class DelayedConnections:
    """Connections on which a job arrives at the third receive."""

    def __init__(self) -> None:
        self.waits = list[bool]()

    def receive(self, wait: bool) -> ReceivedMessages:
        self.waits.append(wait)
        return job(1) if len(self.waits) == 3 else []


def test_an_idle_thread_polls_before_it_sleeps(job_table: JobTable) -> None:
    connections = DelayedConnections()
    Receiver(connections, job_table, threading.Lock(), linger=20).poll_or_wait()
    assert connections.waits == [False, False, False, False] and len(job_table) == 1


def test_an_idle_thread_sleeps_after_the_linger_time(job_table: JobTable) -> None:
    connections = DelayedConnections()
    Receiver(connections, job_table, threading.Lock(), linger=0.0).poll_or_wait()
    assert connections.waits == [True]
    idle = BlockingConnections()
    idle.released.set()
    Receiver(idle, job_table, threading.Lock(), linger=0.05).poll_or_wait()
    assert idle.waits[-1] and not any(idle.waits[:-1])


def test_the_spare_thread_sleeps_at_once(job_table: JobTable) -> None:
    connections = BlockingConnections()
    connections.released.set()
    Receiver(connections, job_table, threading.Lock(), linger=20).wait()
    assert connections.waits == [True]
