"""The state of connections in the kernel, and unread responses."""

import asyncio
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from embedwell.http.http_limits import Timeouts
from embedwell.http.protocol.transport import (
    Acceptor,
    HalfClosed,
    UnreadResponse,
    has_end_of_input,
    seconds_unread,
    unsent_bytes,
)


@asynccontextmanager
async def accepted(
    client: socket.socket, server: socket.socket
) -> AsyncIterator[asyncio.Transport]:
    """A transport of the server's end that has not read anything."""
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=server)
    transport.pause_reading()
    try:
        yield transport
    finally:
        transport.abort()
        client.close()


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        return client, listener.accept()[0]


def test_the_end_of_input_is_seen_behind_unread_bytes() -> None:
    async def run() -> None:
        client, server = tcp_pair()
        async with accepted(client, server) as transport:
            client.sendall(b"unread")
            assert not has_end_of_input(transport)
            client.close()
            assert has_end_of_input(transport)

    asyncio.run(run())


def test_the_time_of_unread_bytes_is_that_since_they_arrived() -> None:
    async def run() -> None:
        client, server = tcp_pair()
        async with accepted(client, server) as transport:
            time.sleep(0.2)
            client.sendall(b"unread")
            time.sleep(0.1)
            first = seconds_unread(transport)
            time.sleep(0.1)
            assert first >= 0.08 and seconds_unread(transport) >= first + 0.08

    asyncio.run(run())


def test_the_time_of_unread_bytes_is_unknown_without_tcp() -> None:
    async def run() -> None:
        client, server = socket.socketpair()
        async with accepted(client, server) as transport:
            client.sendall(b"unread")
            time.sleep(0.05)
            assert seconds_unread(transport) == 0.0

    asyncio.run(run())


class SlowTransport(asyncio.Transport):
    """A write buffer of which the client reads some bytes whenever its size is read.

    The kernel buffers nothing.
    """

    def __init__(self, unread: int, reads: int) -> None:
        super().__init__({"socket": socket.socket()})
        self.unread, self.reads, self.aborted = unread, reads, asyncio.Event()

    def get_write_buffer_size(self) -> int:
        self.unread = max(self.unread - self.reads, 0)
        return self.unread

    def abort(self) -> None:
        self.get_extra_info("socket").close()
        self.aborted.set()


def bytes_unread_at_abort(transport: SlowTransport) -> int:
    """The number of unread bytes of a response when it is aborted."""

    async def run() -> int:
        UnreadResponse(transport, Timeouts(0.05)).begin()
        await asyncio.wait_for(transport.aborted.wait(), 120)
        return transport.unread

    return asyncio.run(run())


def test_a_response_of_which_nothing_is_read_in_time_is_aborted() -> None:
    assert bytes_unread_at_abort(SlowTransport(1000, reads=0)) == 1000


def test_reading_part_of_a_response_restarts_the_timeout() -> None:
    assert bytes_unread_at_abort(SlowTransport(1000, reads=100)) == 0


def test_bytes_that_are_read_from_the_buffer_of_the_kernel_restart_the_timeout() -> None:
    async def run() -> None:
        client, server = tcp_pair()
        async with accepted(client, server) as transport:
            transport.write(bytes(20_000_000))
            unread, left = UnreadResponse(transport, Timeouts(1000)), unsent_bytes(transport)
            unread.begin()
            while unsent_bytes(transport) >= left:
                client.recv(100_000)
            unread.expire()
            assert not transport.is_closing()
            unread.expire()
            assert transport.is_closing()

    asyncio.run(run())


def test_a_half_closed_connection_drops_bytes_up_to_a_limit() -> None:
    async def run() -> None:
        client, server = tcp_pair()
        async with accepted(client, server) as transport:
            half_closed = HalfClosed(transport, Timeouts(1000))
            half_closed.drop(bytes(64 << 20))
            assert not transport.is_closing()
            half_closed.drop(b"a")
            assert transport.is_closing()

    asyncio.run(run())


def test_a_half_closed_connection_waits_for_the_reader_of_its_response() -> None:
    async def run() -> None:
        client, server = tcp_pair()
        async with accepted(client, server) as transport:
            transport.write(bytes(20_000_000))
            half_closed = HalfClosed(transport, Timeouts(1000))
            half_closed.expire()
            assert not transport.is_closing()
            while transport.get_write_buffer_size():
                await asyncio.get_running_loop().run_in_executor(None, client.recv, 1 << 20)
            half_closed.expire()
            assert transport.is_closing()

    asyncio.run(run())


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
