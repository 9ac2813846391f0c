"""Connections that wait when a server stops listening."""

import asyncio
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from embedwell.http.protocol.acceptor import Acceptor


class Greeting(asyncio.Protocol):
    """Greets a client, and closes the connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"hello")
        transport.close()


@pytest.fixture(params=[socket.AF_UNIX, socket.AF_INET], ids=["unix", "tcp"])
def listener(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    with tempfile.TemporaryDirectory() as folder, socket.socket(request.param) as listener:
        is_unix = request.param == socket.AF_UNIX
        listener.bind(str(Path(folder) / "socket") if is_unix else ("127.0.0.1", 0))
        listener.listen()
        yield listener


def test_those_that_wait_are_served_and_others_refused(listener: socket.socket) -> None:
    async def drain() -> None:
        await Acceptor(listener, Greeting).drain()
        await asyncio.sleep(0)

    address, family = listener.getsockname(), listener.family
    with ExitStack() as stack:
        *waiting, late = [stack.enter_context(socket.socket(family)) for _ in range(4)]
        for client in waiting:
            client.settimeout(60)
            client.connect(address)
        asyncio.run(drain())
        assert [client.recv(9) for client in waiting] == [b"hello"] * 3
        with pytest.raises(ConnectionRefusedError):
            late.connect(address)
