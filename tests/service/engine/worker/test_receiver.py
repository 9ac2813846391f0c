"""Tests of connections over real sockets, and of the receiver, with fake connections."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from embedwell.engine.wire.engine_sockets import (
    MessageReader,
    handoff_pair,
    pack,
    request_connection,
)
from embedwell.engine.wire.messages import Job, pack_jobs
from embedwell.engine.worker.job_table import JobTable
from embedwell.engine.worker.receiver import CLOSED, Connections, ReceivedMessages, Receiver
from embedwell_models.encoder.batch import FlatRows
from tests.service.rig import FakeConnection, ids

GREETING = ["description", {"dim": 3}], b""


class Server:
    """A handoff pair and a shutdown_fd."""

    def __init__(self) -> None:
        self._requesting, self._accepting = handoff_pair()
        self._read, self._write = os.pipe()
        self.connections = Connections(self._accepting, self._read, GREETING)

    def request_connection(self) -> socket.socket:
        return request_connection(self._requesting.fileno())[0]

    def connect(self) -> socket.socket:
        sock = self.request_connection()
        self.connections.receive(wait=True)
        return sock

    def shut_down(self) -> None:
        os.close(self._write)

    def close(self) -> None:
        self.connections.close()
        self._requesting.close()
        self._accepting.close()
        os.close(self._read)


@pytest.fixture
def server() -> Iterator[Server]:
    with closing(Server()) as server:
        yield server


def headers(sock: socket.socket) -> list[object]:
    return [header for header, _ in MessageReader().feed(sock.recv(1000))]


def test_a_connection_is_greeted_and_read(server: Server) -> None:
    with server.connect() as one, server.connect() as other:
        assert headers(one) == headers(other) == [GREETING[0]]
        one.sendall(pack("from one"))
        other.sendall(pack("from other") + pack("more"))
        messages = server.connections.receive(wait=True) + server.connections.receive(wait=False)
        senders = {message[0]: connection for connection, message in messages}
        assert set(senders) == {"from one", "from other", "more"}
        assert senders["from other"] is senders["more"] is not senders["from one"]
        senders["from one"].send("a result")
        assert headers(one) == ["a result"]
        assert server.connections.receive(wait=False) == []


def test_a_closed_connection_is_reported_and_others_stay(server: Server) -> None:
    with server.connect() as one, server.connect() as other:
        one.close()
        [(_, message)] = server.connections.receive(wait=True)
        assert message is CLOSED
        with server.connect() as late:  # reuses the file descriptor
            assert headers(late) == [GREETING[0]]
        other.sendall(pack("still here"))
        received = [message[0] for _, message in server.connections.receive(wait=True)]
        assert "still here" in received


def test_a_connection_requested_before_the_engine_runs_is_greeted(server: Server) -> None:
    with server.request_connection() as early:
        server.connections.receive(wait=True)
        assert headers(early) == [GREETING[0]]


def test_a_connection_closed_before_the_engine_runs_is_reported(server: Server) -> None:
    server.request_connection().close()
    server.connections.receive(wait=True)
    [(_, message)] = server.connections.receive(wait=True)
    assert message is CLOSED


def test_the_end_of_the_lifeline_raises_end_of_file(server: Server) -> None:
    with server.connect():
        server.shut_down()
        with pytest.raises(EOFError):
            server.connections.receive(wait=True)


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
