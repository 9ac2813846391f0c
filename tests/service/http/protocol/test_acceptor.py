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


def test_a_socket_that_is_closed_is_not_drained(listener: socket.socket) -> None:
    async def drain() -> None:
        acceptor = Acceptor(listener, Greeting)
        acceptor.close()
        await acceptor.drain()

    asyncio.run(drain())


class Crowd(socket.socket):
    """A listening socket to which another client connects whenever one is accepted."""

    def accept(self) -> tuple[socket.socket, object]:
        self.clients = [*getattr(self, "clients", ()), socket.create_connection(self.getsockname())]
        assert len(self.clients) < 20
        return super().accept()


def test_clients_that_connect_all_the_time_are_not_accepted_forever() -> None:
    async def drain() -> None:
        await Acceptor(crowd, Greeting).drain(most=9)

    with Crowd(socket.AF_INET) as crowd:
        crowd.bind(("127.0.0.1", 0))
        crowd.listen()
        asyncio.run(drain())
        for client in crowd.clients:
            client.close()
        assert len(crowd.clients) == 9
