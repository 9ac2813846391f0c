"""Lines over real sockets: they come, speak, go, and end with the server."""

import os
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from service.engine.protocol.fd_handoff import handoff_pair, request_connection
from service.engine.protocol.wire import MessageReader, pack
from service.engine.worker.connections import CLOSED, Connections

GREETING = ["description", {"dim": 3}], b""


class Server:
    """An exchange, and a lifeline."""

    def __init__(self) -> None:
        self._asking, self._giving = handoff_pair()
        self._read, self._write = os.pipe()
        self.connections = Connections(self._giving, self._read, GREETING)

    def request_connection(self) -> socket.socket:
        return request_connection(self._asking.fileno())[0]

    def connect(self) -> socket.socket:
        end = self.request_connection()
        self.connections.receive(wait=True)
        return end

    def end(self) -> None:
        os.close(self._write)

    def close(self) -> None:
        self.connections.close()
        self._asking.close()
        self._giving.close()
        os.close(self._read)


@pytest.fixture
def server() -> Iterator[Server]:
    with closing(Server()) as found:
        yield found


def heads(end: socket.socket) -> list[object]:
    return [head for head, _ in MessageReader().feed(end.recv(1000))]


def test_who_connects_is_greeted_and_heard(server: Server) -> None:
    with server.connect() as one, server.connect() as other:
        assert heads(one) == heads(other) == [GREETING[0]]
        one.sendall(pack("from one"))
        other.sendall(pack("from other") + pack("more"))
        messages = server.connections.receive(wait=True) + server.connections.receive(wait=False)
        said = {message[0]: connection for connection, message in messages}
        assert set(said) == {"from one", "from other", "more"}
        assert said["from other"] is said["more"] is not said["from one"]
        said["from one"].send("an answer")
        assert heads(one) == ["an answer"]
        assert server.connections.receive(wait=False) == []


def test_who_leaves_is_told_of_and_the_others_stay(server: Server) -> None:
    with server.connect() as one, server.connect() as other:
        one.close()
        [(_, message)] = server.connections.receive(wait=True)
        assert message is CLOSED
        with server.connect() as late:  # at the descriptor that is free again
            assert heads(late) == [GREETING[0]]
        other.sendall(pack("still here"))
        said = [message[0] for _, message in server.connections.receive(wait=True)]
        assert "still here" in said


def test_who_has_asked_before_anyone_listened_is_greeted(server: Server) -> None:
    with server.request_connection() as early:
        server.connections.receive(wait=True)
        assert heads(early) == [GREETING[0]]


def test_who_left_before_anyone_listened_is_told_of(server: Server) -> None:
    server.request_connection().close()
    server.connections.receive(wait=True)
    [(_, message)] = server.connections.receive(wait=True)
    assert message is CLOSED


def test_the_end_of_the_lifeline_ends_all(server: Server) -> None:
    with server.connect():
        server.end()
        with pytest.raises(EOFError):
            server.connections.receive(wait=True)
