"""Lines over real sockets: they come, speak, go, and end with the server."""

import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from service.engine.lines import GONE, Lines
from service.engine.wire import Inbox, pack
from service.home import listener

GREETING = ["description", {"dim": 3}], b""


class Server:
    """An address, and a lifeline."""

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / "engine")
        self.door = listener(self.address)
        self._read, self._write = os.pipe()
        self.lines = Lines(self.door, self._read, GREETING)

    def connect(self) -> socket.socket:
        end = socket.socket(socket.AF_UNIX)
        end.connect(self.address)
        self.lines.receive(wait=True)
        return end

    def end(self) -> None:
        os.close(self._write)

    def close(self) -> None:
        self.lines.close()
        self.door.close()
        os.close(self._read)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with closing(Server(tmp_path)) as found:
        yield found


def heads(end: socket.socket) -> list[object]:
    return [head for head, _ in Inbox().feed(end.recv(1000))]


def test_who_connects_is_greeted_and_heard(server: Server) -> None:
    with server.connect() as one, server.connect() as other:
        assert heads(one) == heads(other) == [GREETING[0]]
        one.sendall(pack("from one"))
        other.sendall(pack("from other") + pack("more"))
        mail = server.lines.receive(wait=True) + server.lines.receive(wait=False)
        said = {message[0]: line for line, message in mail}
        assert set(said) == {"from one", "from other", "more"}
        assert said["from other"] is said["more"] is not said["from one"]
        said["from one"].send("an answer")
        assert heads(one) == ["an answer"]
        assert server.lines.receive(wait=False) == []


def test_who_leaves_is_told_of_and_the_others_stay(server: Server) -> None:
    with server.connect() as one, server.connect() as other:
        one.close()
        [(_, message)] = server.lines.receive(wait=True)
        assert message is GONE
        with server.connect() as late:  # at the descriptor that is free again
            assert heads(late) == [GREETING[0]]
        other.sendall(pack("still here"))
        said = [message[0] for _, message in server.lines.receive(wait=True)]
        assert "still here" in said


def test_who_connected_before_anyone_listened_is_greeted(tmp_path: Path) -> None:
    door = listener(str(tmp_path / "engine"))
    with door, socket.socket(socket.AF_UNIX) as early:
        early.connect(str(tmp_path / "engine"))
        read, write = os.pipe()
        with closing(Lines(door, read, GREETING)) as lines:
            lines.receive(wait=True)
            assert heads(early) == [GREETING[0]]
        os.close(read)
        os.close(write)


def test_the_end_of_the_lifeline_ends_all(server: Server) -> None:
    with server.connect():
        server.end()
        with pytest.raises(EOFError):
            server.lines.receive(wait=True)
