"""Tests of how an HTTP process connects to the engine."""

import mmap
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedwell.engine.wire.engine_sockets import (
    HttpProcessConnection,
    MessageReader,
    RunningTextCounts,
    accept_connection,
    handoff_pair,
    pack,
    request_connection,
)
from tests.service.rig import running

ROOT = Path(__file__).parents[4]


def test_a_connection_has_an_end_in_the_requesting_process_and_one_in_the_engine() -> None:
    requesting, accepting = handoff_pair()
    with requesting, accepting:
        (host_end, running), (engine_end, engine_running) = (
            request_connection(requesting.fileno()),
            accept_connection(accepting),
        )
        with host_end, engine_end:
            host_end.sendall(b"a job")
            assert engine_end.recv(10) == b"a job"
            assert not engine_end.get_inheritable()
        engine_running.begin(7)
        assert 7 in running and 8 not in running


def test_connections_are_accepted_in_the_order_of_their_requests() -> None:
    requesting, accepting = handoff_pair()
    with requesting, accepting:
        for number in range(3):
            with request_connection(requesting.fileno())[0] as host_end:
                host_end.sendall(b"%d" % number)
        for number in range(3):
            with accept_connection(accepting)[0] as engine_end:
                assert engine_end.recv(10) == b"%d" % number


def test_a_request_that_is_refused_as_too_many_wait_leaks_no_descriptor() -> None:
    requesting, accepting = handoff_pair()
    with requesting, accepting:
        connections = []
        with pytest.raises(BlockingIOError):
            while True:
                connections.append(request_connection(requesting.fileno())[0])
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(BlockingIOError):
            request_connection(requesting.fileno())
        assert len(os.listdir("/proc/self/fd")) == before
        for connection in connections:
            connection.close()


def test_a_job_runs_while_a_text_of_it_is_computed() -> None:
    table = running()
    table.begin(5, 3)
    table.begin(5)
    table.end(5, 3)
    assert 5 in table and 6 not in table
    table.end(5)
    assert 5 not in table


def test_job_numbers_may_exceed_the_slots() -> None:
    table = running()
    table.begin(10**12)
    assert 10**12 in table and 10**12 + 1 not in table


def test_the_counts_of_a_process_outlive_it() -> None:
    program = (
        "import os, signal, sys;"
        "from embedwell.engine.wire.engine_sockets import RunningTextCounts;"
        "RunningTextCounts.attach(int(sys.argv[1])).begin(3); os.kill(os.getpid(), signal.SIGKILL)"
    )
    table, file = RunningTextCounts.create()
    with file:
        command = [sys.executable, "-c", program, str(file.fileno())]
        done = subprocess.run(command, pass_fds=[file.fileno()], cwd=ROOT, check=False)
        assert done.returncode == -signal.SIGKILL and 3 in table


def test_the_disk_space_of_the_table_is_allocated_at_the_start() -> None:
    _, file = RunningTextCounts.create()
    with file:
        assert os.fstat(file.fileno()).st_blocks * 512 >= mmap.PAGESIZE


MESSAGES: list[tuple[Any, Any]] = [
    (["short"], b""),
    ({"text": "é 🦊"}, np.arange(7, dtype=np.float32)),
    ([1, [2, 3]], np.arange(12, dtype=np.int32).reshape(3, 4)),
    (None, b"abc"),
    ("no rows", np.zeros((0, 4), dtype=np.float32)),
]


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    first, second = socket.socketpair()
    with closing(first), closing(second):
        yield first, second


def connect(sock: socket.socket) -> HttpProcessConnection:
    return HttpProcessConnection(sock, running())


@pytest.mark.parametrize("size", [1, 2, 5, 16, 17, 1000])
def test_messages_arrive_however_the_stream_is_split(size: int) -> None:
    sent = b"".join(pack(header, body) for header, body in MESSAGES)
    reader = MessageReader()
    parts = [sent[i : i + size] for i in range(0, len(sent), size)]
    received = [message for part in parts for message in reader.feed(part)]
    assert [header for header, _ in received] == [header for header, _ in MESSAGES]
    assert [bytes(body) for _, body in received] == [bytes(body) for _, body in MESSAGES]


def test_the_numbers_of_a_body_are_aligned() -> None:
    for length in range(20):
        [(_, body)] = MessageReader().feed(pack("x" * length, np.zeros(3, dtype=np.float32)))
        assert np.frombuffer(body, dtype=np.float32).flags.aligned


def test_one_call_receives_all_waiting_messages(pair: tuple[socket.socket, socket.socket]) -> None:
    first, second = connect(pair[0]), connect(pair[1])
    assert second.receive(wait=False) == []
    for number in range(3):
        first.send(number)
    assert [header for header, _ in second.receive(wait=True)] == [0, 1, 2]


def test_messages_larger_than_any_buffer_arrive_in_order_without_blocking_the_sender(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    first, second = connect(pair[0]), connect(pair[1])
    body = random.Random(0).randbytes(5_000_000)
    sent = [("big", body), ("small", b""), ("again", body), ("last", b"")]
    for message in sent:
        first.send(*message)
    received: list[tuple[object, object]] = []
    while len(received) < len(sent):
        received += second.receive(wait=True)
    assert received == sent


def test_a_small_message_does_not_overtake_a_large_one(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    first, second = connect(pair[0]), connect(pair[1])
    received: list[object] = []

    def read() -> None:
        while len(received) < 400:
            received.extend(header for header, _ in second.receive(wait=True))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(200):
        first.send(2 * number, bytes(700_000))
        first.send(2 * number + 1)
    reader.join()
    assert received == list(range(400))


def test_a_message_waits_while_the_socket_is_full(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    first, second = connect(pair[0]), connect(pair[1])
    with pytest.raises(BlockingIOError):
        while True:
            pair[0].send(pack("more"), socket.MSG_DONTWAIT)
    first.send("last")
    received: list[object] = []
    while "last" not in received:
        received += [header for header, _ in second.receive(wait=True)]
    assert set(received) == {"more", "last"}


def test_a_connection_that_was_full_sends_without_a_thread_again(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    first, second = connect(pair[0]), connect(pair[1])
    before = threading.active_count()
    for number in range(3):
        first.send(number, bytes(5_000_000))
        assert threading.active_count() == before + 1
        while not second.receive(wait=True):
            pass
        while threading.active_count() > before:
            time.sleep(0.001)
    first.send("short")
    assert threading.active_count() == before
    assert second.receive(wait=False) == [("short", b"")]


def test_a_connection_closed_at_the_other_end_drops_what_is_sent(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    connection = connect(pair[0])
    pair[1].close()
    connection.send("anyone?")
    with pytest.raises(EOFError):
        connection.receive(wait=True)


def test_a_connection_closed_at_our_end_drops_what_is_sent(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    connection = connect(pair[0])
    pair[0].close()  # by the thread that reads, while another sends a result
    connection.send(["late"])


def test_a_connection_is_closed_if_the_other_end_does_not_read(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    connection = HttpProcessConnection(pair[0], running(), send_timeout=1)
    connection.send("much", bytes(5_000_000))
    with pytest.raises(EOFError):
        connection.receive(wait=True)


def test_a_message_of_more_buffers_than_a_system_call_takes_is_sent_before_the_end() -> None:
    ours, theirs = socket.socketpair()
    sender, receiver = (HttpProcessConnection(each, running()) for each in (ours, theirs))
    with ours, theirs:
        sender.send(["many"], *[bytes([i % 256]) for i in range(3000)])
        ours.shutdown(socket.SHUT_WR)
        [(header, body)] = receiver.receive(wait=True)
        assert header == ["many"] and bytes(body) == bytes(i % 256 for i in range(3000))
        with pytest.raises(EOFError):
            receiver.receive(wait=True)
