"""Tests of the engine's connections over real sockets."""

import os
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from embedwell.engine.wire.engine_sockets import handoff_pair, request_connection
from embedwell.engine.wire.framing import MessageReader, pack
from embedwell.engine.worker.connections import CLOSED, Connections

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
