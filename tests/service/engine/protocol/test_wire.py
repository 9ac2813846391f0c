"""Messages over a real pair of sockets."""

import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from service.engine.protocol.wire import MessageReader, WorkerConnection, pack
from tests.service.rig import running

MESSAGES: list[tuple[Any, Any]] = [
    (["short"], b""),
    ({"text": "é 🦊"}, np.arange(7, dtype=np.float32)),
    ([1, [2, 3]], np.arange(12, dtype=np.int32).reshape(3, 4)),
    (None, b"abc"),
    ("no rows", np.zeros((0, 4), dtype=np.float32)),
]


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with closing(one), closing(other):
        yield one, other


def line_of(end: socket.socket) -> WorkerConnection:
    return WorkerConnection(end, running())


@pytest.mark.parametrize("size", [1, 2, 5, 16, 17, 1000])
def test_messages_arrive_whole_in_whatever_pieces_they_come(size: int) -> None:
    sent = b"".join(pack(head, body) for head, body in MESSAGES)
    reader = MessageReader()
    pieces = [sent[i : i + size] for i in range(0, len(sent), size)]
    found = [message for piece in pieces for message in reader.feed(piece)]
    assert [head for head, _ in found] == [head for head, _ in MESSAGES]
    assert [bytes(body) for _, body in found] == [bytes(body) for _, body in MESSAGES]


def test_numbers_lie_where_numpy_reads_them_fastest() -> None:
    for length in range(20):
        [(_, body)] = MessageReader().feed(pack("x" * length, np.zeros(3, dtype=np.float32)))
        assert np.frombuffer(body, dtype=np.float32).flags.aligned


def test_a_line_takes_all_that_waits(pair: tuple[socket.socket, socket.socket]) -> None:
    one, other = line_of(pair[0]), line_of(pair[1])
    assert other.receive(wait=False) == []
    for number in range(3):
        one.send(number)
    assert [head for head, _ in other.receive(wait=True)] == [0, 1, 2]


def test_messages_larger_than_any_buffer_arrive_in_order_and_nobody_waits_for_that(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    one, other = line_of(pair[0]), line_of(pair[1])
    body = random.Random(0).randbytes(5_000_000)
    sent = [("big", body), ("small", b""), ("again", body), ("last", b"")]
    for message in sent:
        one.send(*message)
    found: list[tuple[object, object]] = []
    while len(found) < len(sent):
        found += other.receive(wait=True)
    assert found == sent


def test_what_follows_a_large_message_does_not_overtake_it(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    one, other = line_of(pair[0]), line_of(pair[1])
    found: list[object] = []

    def read() -> None:
        while len(found) < 400:
            found.extend(head for head, _ in other.receive(wait=True))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(200):
        one.send(2 * number, bytes(700_000))
        one.send(2 * number + 1)
    reader.join()
    assert found == list(range(400))


def test_a_message_waits_where_nothing_of_it_is_taken(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    one, other = line_of(pair[0]), line_of(pair[1])
    with pytest.raises(BlockingIOError):
        while True:
            pair[0].send(pack("more"), socket.MSG_DONTWAIT)
    one.send("last")
    found: list[object] = []
    while "last" not in found:
        found += [head for head, _ in other.receive(wait=True)]
    assert set(found) == {"more", "last"}


def test_a_line_that_was_full_sends_at_once_again(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    one, other = line_of(pair[0]), line_of(pair[1])
    before = threading.active_count()
    for number in range(3):
        one.send(number, bytes(5_000_000))
        assert threading.active_count() == before + 1
        while not other.receive(wait=True):
            pass
        while threading.active_count() > before:
            time.sleep(0.001)
    one.send("short")
    assert threading.active_count() == before
    assert other.receive(wait=False) == [("short", b"")]


def test_a_line_that_is_closed_ends_and_what_is_sent_on_it_is_dropped(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    connection = line_of(pair[0])
    pair[1].close()
    connection.send("anyone?")
    with pytest.raises(EOFError):
        connection.receive(wait=True)


def test_what_is_sent_on_a_line_that_was_closed_here_is_dropped(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    connection = line_of(pair[0])
    pair[0].close()  # by the thread that has read its end, while another has an answer for it
    connection.send(["late"])


def test_a_line_ends_whose_other_end_does_not_read(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    connection = WorkerConnection(pair[0], running(), patience=1)
    connection.send("much", bytes(5_000_000))
    with pytest.raises(EOFError):
        connection.receive(wait=True)
