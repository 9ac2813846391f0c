"""What uvicorn writes in pieces leaves whole, and never later than in the same turn of the loop."""

import asyncio
import json
import socket
from collections.abc import Iterable

from service.connection import Gathered
from tests.service.server import Server


class Pipe(asyncio.Transport):
    """Remembers what is sent at once."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.closed = False

    def writelines(self, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        assert not self.closed
        self.sent.append(b"".join(parts))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


def test_what_is_written_in_one_turn_is_sent_together() -> None:
    async def run() -> None:
        pipe = Pipe()
        gathered = Gathered(pipe, asyncio.get_running_loop())
        gathered.write(b"head ")
        gathered.write(b"body")
        assert pipe.sent == []
        await asyncio.sleep(0)
        gathered.write(b"more")
        await asyncio.sleep(0)
        assert pipe.sent == [b"head body", b"more"]

    asyncio.run(run())


def test_closing_sends_what_is_held_and_nothing_after() -> None:
    async def run() -> None:
        pipe = Pipe()
        gathered = Gathered(pipe, asyncio.get_running_loop())
        gathered.write(b"last")
        gathered.close()
        gathered.write(b"late")
        await asyncio.sleep(0)
        assert pipe.closed and pipe.sent == [b"last"]

    asyncio.run(run())


def raw(server: Server) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def test_a_client_that_asks_first_is_told_to_go_on(server: Server) -> None:
    body = json.dumps({"inputs": "a"}).encode()
    head = f"POST /embed HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
    with raw(server) as client:
        client.sendall(f"{head}expect: 100-continue\r\n\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 100 ")
        client.sendall(body)
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")


def test_requests_sent_in_a_row_are_answered_in_order(server: Server) -> None:
    names = [f"number-{index}" for index in range(5)]
    with raw(server) as client:
        client.sendall(
            b"".join(f"GET /live HTTP/1.1\r\nx-request-id: {n}\r\n\r\n".encode() for n in names)
        )
        found = b""
        while found.count(b'{"status":"live"}') < len(names):
            found += client.recv(10_000)
    places = [found.index(name.encode()) for name in names]
    assert places == sorted(places)
