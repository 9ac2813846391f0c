"""Messages over a real pair of sockets."""

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from service.engine.wire import Inbox, Line, pack

MESSAGES: list[tuple[Any, Any]] = [
    (["short"], b""),
    ({"text": "é 🦊"}, np.arange(7, dtype=np.float32)),
    ([1, [2, 3]], np.arange(12, dtype=np.int32).reshape(3, 4)),
    (None, b"abc"),
]


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with closing(one), closing(other):
        yield one, other


@pytest.mark.parametrize("size", [1, 2, 5, 16, 17, 1000])
def test_messages_arrive_whole_in_whatever_pieces_they_come(size: int) -> None:
    sent = b"".join(pack(head, body) for head, body in MESSAGES)
    inbox = Inbox()
    pieces = [sent[i : i + size] for i in range(0, len(sent), size)]
    found = [message for piece in pieces for message in inbox.feed(piece)]
    assert [head for head, _ in found] == [head for head, _ in MESSAGES]
    assert [bytes(body) for _, body in found] == [bytes(body) for _, body in MESSAGES]


def test_numbers_lie_where_numpy_reads_them_fastest() -> None:
    for length in range(20):
        [(_, body)] = Inbox().feed(pack("x" * length, np.zeros(3, dtype=np.float32)))
        assert np.frombuffer(body, dtype=np.float32).flags.aligned


def test_a_line_takes_all_that_waits(pair: tuple[socket.socket, socket.socket]) -> None:
    one, other = Line(pair[0]), Line(pair[1])
    assert other.receive(wait=False) == []
    for number in range(3):
        one.send(number)
    assert [head for head, _ in other.receive(wait=True)] == [0, 1, 2]


def test_a_message_larger_than_any_buffer_arrives(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    one, other = Line(pair[0]), Line(pair[1])
    body = random.Random(0).randbytes(5_000_000)
    sender = threading.Thread(target=one.send, args=("big", body))
    sender.start()
    found: list[tuple[object, object]] = []
    while not found:
        found += other.receive(wait=True)
    sender.join()
    assert found == [("big", body)]


def test_a_line_that_is_closed_ends_and_what_is_sent_on_it_is_dropped(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    line = Line(pair[0])
    pair[1].close()
    line.send("anyone?")
    with pytest.raises(EOFError):
        line.receive(wait=True)


def test_what_is_sent_on_a_line_that_was_closed_here_is_dropped(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    line = Line(pair[0])
    pair[0].close()  # by the thread that has read its end, while another has an answer for it
    line.send(["late"])


def test_a_line_ends_whose_other_end_does_not_read(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    line = Line(pair[0], patience=1)
    line.send("much", bytes(5_000_000))
    with pytest.raises(EOFError):
        line.receive(wait=True)
