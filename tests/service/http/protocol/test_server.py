"""uvicorn as this server runs it."""

import asyncio
import logging
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from embedwell.http.protocol.connection import ServerState
from embedwell.http.protocol.server import Server, vital


def test_a_failed_vital_task_is_reported_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        raise FileNotFoundError("the socket is gone")

    failed: list[None] = []
    with caplog.at_level(logging.CRITICAL):
        asyncio.run(vital(work, lambda: failed.append(None))())
    assert failed == [None] and "the socket is gone" in caplog.text


def test_a_cancelled_vital_task_is_not_reported() -> None:
    async def run() -> None:
        working = asyncio.create_task(vital(lambda: asyncio.sleep(60), failed.set)())
        await asyncio.sleep(0)
        working.cancel()
        await asyncio.wait([working])
        assert working.cancelled() and not failed.is_set()

    failed = asyncio.Event()
    asyncio.run(run())


def test_a_server_stops_after_the_delay_or_at_the_second_signal() -> None:
    async def run() -> None:
        server = Server(uvicorn.Config("any"), drain_delay=1000)
        server.stop()
        assert server.stopping and not server._uvicorn.should_exit
        server.stop()
        assert server._uvicorn.should_exit

    asyncio.run(run())


class NewConnection(asyncio.Protocol):
    """A connection that expects a request until some bytes arrive."""

    def __init__(self, server_state: ServerState, **_: Any) -> None:
        self._open, self._received = server_state.connections, False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open.add(self)

    def data_received(self, data: bytes) -> None:
        self._received = True

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.discard(self)

    def expects_first_request(self) -> bool:
        return not self._received

    def shutdown(self) -> None:
        self._transport.close()


def test_a_server_that_stops_waits_for_the_request_of_a_connection_it_has_just_accepted() -> None:
    async def run(listener: socket.socket, client: socket.socket) -> None:
        config = uvicorn.Config(asyncio.sleep, http=NewConnection, lifespan="off")
        server = Server(config, drain_delay=0, keeps_backlog=True)
        server._unix_listeners = [listener]
        serving = asyncio.create_task(server._uvicorn.serve([]))
        await server.wait_listening()
        client.connect(listener.getsockname())
        server._acceptors[0]._accept()
        server.stop()
        await asyncio.sleep(0.1)
        assert not server._uvicorn.should_exit
        client.sendall(b"GET")
        await asyncio.wait_for(serving, 60)

    with (
        tempfile.TemporaryDirectory() as folder,
        socket.socket(socket.AF_UNIX) as listener,
        socket.socket(socket.AF_UNIX) as client,
    ):
        listener.bind(str(Path(folder) / "socket"))
        listener.listen()
        asyncio.run(run(listener, client))
