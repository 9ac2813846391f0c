"""uvicorn with a minimal application in the test process, over real sockets."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from embedwell.compute.request_limits import MemoryBudget
from embedwell.engine.wire.engine_state import SharedCounters
from embedwell.http.access import BrowserChecks
from embedwell.http.http_limits import HttpLimits, Timeouts
from embedwell.http.middleware import Middleware
from embedwell.http.protocol.connection import ServerState
from embedwell.http.protocol.server import uvicorn_config
from embedwell.http.route_traits import RouteTraits, TraitsByPath
from embedwell.settings.settings import Settings
from embedwell.telemetry.metrics import Metrics

OK = b"HTTP/1.1 200 OK\r\n"


class PausedApp:
    """Reads the request's body, waits for `resume`, then responds with its path, repeated."""

    def __init__(self, times: int = 1, memory: int = 0) -> None:
        """memory: bytes that each request reserves."""
        self.resume, self.requests_started, self._times = asyncio.Event(), 0, times
        self._memory = memory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body", False):
            continue
        self.requests_started += 1
        scope["state"]["context"].memory.grow(self._memory)
        await self.resume.wait()
        body = scope["path"].encode() * self._times
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class HeldTimeouts(Timeouts):
    """Time limits that end when a test says so."""

    def __init__(self) -> None:
        super().__init__(1000.0)

    def expire_all(self) -> None:
        """End every time limit that runs."""
        for waiting in [*self._since]:
            self.end(waiting)
            waiting.expire()


class Client:
    """One end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.send = reader, writer.write

    async def receive(self, max_bytes: int) -> bytes:
        """Wait for bytes and return at most `max_bytes` of them."""
        return await asyncio.wait_for(self._reader.read(max_bytes), 120)

    async def receive_all(self) -> bytes:
        """Receive all bytes until the server closes the connection."""
        return await asyncio.wait_for(self._reader.read(), 120)


class RunningApp:
    """The port of a running application, its connections and its metrics."""

    def __init__(self, port: int, state: ServerState, metrics: Metrics) -> None:
        self.port, self.state, self.metrics = port, state, metrics

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A client with small receive buffers."""
        client_socket = socket.socket()
        client_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
        client_socket.connect(("127.0.0.1", self.port))
        reader, writer = await asyncio.open_connection(sock=client_socket, limit=1 << 10)
        try:
            yield Client(reader, writer)
        finally:
            writer.close()


@asynccontextmanager
async def serve(
    app: ASGIApp,
    timeouts: float | Timeouts = 120.0,
    connections: int = 100,
    budget: MemoryBudget | None = None,
    idle: float | Timeouts = 120.0,
    **settings_values: Any,
) -> AsyncIterator[RunningApp]:
    """Serve an application for as long as the block takes.

    timeouts, idle: time limits of a client, or their seconds.
    """
    metrics = Metrics(SharedCounters.private())
    timers = [each if isinstance(each, Timeouts) else Timeouts(each) for each in (timeouts, idle)]
    limits = HttpLimits(1 << 20, timers[0], budget or MemoryBudget(), connections, timers[1])
    middleware = Middleware(
        app,
        {},
        TraitsByPath([("/live", RouteTraits(is_health_check=True))]),
        root_path="",
        limits=limits,
        keys=None,
        metrics=metrics,
        browsers=BrowserChecks("*", "*"),
    )
    all_settings = Settings(**settings_values)
    settings = uvicorn_config(all_settings, middleware, middleware)
    state: ServerState = uvicorn.Server(settings).server_state
    protocol: Any = settings.http
    protocol = partial(protocol, config=settings, server_state=state, app_state={})
    listener = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    listener.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 14)
    try:
        yield RunningApp(listener.sockets[0].getsockname()[1], state, metrics)
    finally:
        listener.close()
        for connection in list(state.connections):
            connection.transport.abort()
        if state.tasks:
            await asyncio.wait(state.tasks)
