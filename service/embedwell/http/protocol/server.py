"""uvicorn's server and its configuration."""

import asyncio
import contextlib
import logging
import resource
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from embedwell.compute.activity import Heartbeat
from embedwell.gc_tuning import map_large_blocks
from embedwell.http.http_limits import ConnectionLimit
from embedwell.http.middleware import Middleware
from embedwell.http.protocol.connection import Connection
from embedwell.http.protocol.transport import Acceptor
from embedwell.settings.settings import Settings

log = logging.getLogger(__name__)

Work = Callable[[], Coroutine[Any, Any, None]]

_SWITCH = 0.0005  # seconds
_POLL_SECONDS = 0.005


class _SleepingServer(uvicorn.Server):
    """uvicorn's server without its ten checks a second whether it should exit."""

    def __init__(self, config: uvicorn.Config) -> None:
        self._exit = asyncio.Event()
        super().__init__(config)

    @property
    def should_exit(self) -> bool:
        return self._exit.is_set()

    @should_exit.setter
    def should_exit(self, value: bool) -> None:
        if value:
            self._exit.set()

    async def main_loop(self) -> None:
        await self._exit.wait()


class Server:
    """uvicorn's server, which continues to listen for a while after the request to stop.

    uvicorn accepts connections over TCP; those of Unix sockets are accepted here.
    """

    def __init__(
        self, config: uvicorn.Config, drain_delay: float, keeps_backlog: bool = False
    ) -> None:
        """drain_delay: seconds.

        keeps_backlog: whether connections that wait to be accepted are left to a later server,
            because the listening sockets outlive this one.
        """
        self._config, self._uvicorn = config, _SleepingServer(config)
        self._drain_delay, self._keeps_backlog = drain_delay, keeps_backlog
        self._unix_listeners = list[socket.socket]()
        self._tcp_listeners = list[socket.socket]()  # copies, to accept the last connections
        self._acceptors = list[Acceptor]()
        self._ending: asyncio.Task[None] | None = None
        self._all_stop = False  # whether the processes that share the Unix sockets stop, too
        self.failed = self.stopping = False

    @property
    def started(self) -> bool:
        """Whether it has listened."""
        return self._uvicorn.started

    @property
    def busy(self) -> bool:
        """Whether it responds to a request."""
        return bool(self._uvicorn.server_state.tasks)

    async def wait_listening(self) -> None:
        """Wait until it listens, which it never does if the application cannot be prepared."""
        while not self._uvicorn.started:
            await asyncio.sleep(_POLL_SECONDS)
        if self._uvicorn.should_exit:
            return
        self._acceptors = [Acceptor(each, self._create_connection) for each in self._unix_listeners]
        for acceptor in self._acceptors:
            acceptor.start()

    def stop(self, at_once: bool = False, alone: bool = False) -> None:
        """Stop after the delay; at the second call without it.

        at_once: stop without the delay, as a successor accepts the connections that wait.
        alone: whether the processes that share the Unix sockets may continue.
        """
        self._keeps_backlog |= at_once
        self._all_stop |= not alone
        if at_once or self.stopping or not self._drain_delay:
            self._end()
        else:
            asyncio.get_running_loop().call_later(self._drain_delay, self._end)
        self.stopping = True

    def fail(self) -> None:
        """Stop with a failure, at once."""
        self.failed = self.stopping = True
        for acceptor in self._acceptors:
            acceptor.close()
        while self._tcp_listeners:
            self._tcp_listeners.pop().close()
        for connection in [*self._uvicorn.server_state.connections]:
            connection.shutdown()  # now: uvicorn would serve further requests for a moment
        self._uvicorn.should_exit = True

    def stop_at_signals(self) -> None:
        """Handle the signals for termination; call it while the server runs."""
        stop = partial(self.stop, alone=True)  # another process may have sent it to this one only
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop)

    def run(self, sockets: list[socket.socket]) -> None:
        """Serve on these sockets until the server stops."""
        # With Python's default, the event loop would wait 5 ms whenever a thread tokenises.
        sys.setswitchinterval(_SWITCH)
        map_large_blocks()
        # Each connection takes a descriptor; the default limit is 1024, but systems allow more.
        with contextlib.suppress(OSError, ValueError):
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self._unix_listeners = [each for each in sockets if each.family == socket.AF_UNIX]
        tcp = [each for each in sockets if each.family != socket.AF_UNIX]
        self._tcp_listeners = [each.dup() for each in tcp]
        self._uvicorn.run(tcp)

    def _end(self) -> None:
        if not self._uvicorn.started:
            self._uvicorn.should_exit = True
        elif self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._finish())

    async def _finish(self) -> None:
        """Stop accepting connections, wait for the first requests of the latest, and end."""
        try:
            await self._stop_accepting()
            await asyncio.sleep(_POLL_SECONDS)  # those accepted last are opened by tasks
            open_connections: Any = self._uvicorn.server_state.connections
            while any(connection.expects_first_request() for connection in open_connections):
                await asyncio.sleep(_POLL_SECONDS)
        finally:
            self._uvicorn.should_exit = True

    async def _stop_accepting(self) -> None:
        for server in self._uvicorn.servers:
            server.close()
        tcp = [Acceptor(each, self._create_connection) for each in self._tcp_listeners]
        for acceptor in [*self._acceptors, *tcp]:
            if self._keeps_backlog:
                acceptor.close()
            else:
                await acceptor.drain(shared=not self._all_stop)

    def _create_connection(self) -> asyncio.Protocol:
        # As uvicorn creates it for the connections that it accepts.
        connection: asyncio.Protocol = self._config.http_protocol_class(  # type: ignore[call-arg]
            config=self._config,
            server_state=self._uvicorn.server_state,
            app_state=self._uvicorn.lifespan.state,
        )
        return connection


def vital(work: Work, fail: Callable[[], None]) -> Work:
    """Wrap work that the server needs, so that `fail` is called when it raises."""

    async def run() -> None:
        try:
            await work()
        except Exception:
            log.critical("the server cannot continue and stops", exc_info=True)
            fail()

    return run


def uvicorn_config(
    settings: Settings,
    middleware: Middleware,
    app: ASGIApp,
    heartbeat: Heartbeat | None = None,
) -> uvicorn.Config:
    """Configure uvicorn for the application.

    middleware: part of the application; connections have its limits.
    heartbeat: is told that a client connects, or sends or receives something.
    """
    limit = ConnectionLimit(middleware.limits.connections, heartbeat=heartbeat)
    return uvicorn.Config(
        app,
        http=partial(Connection, middleware, limit),  # type: ignore[arg-type]
        ws="none",
        log_config=None,
        server_header=False,
        proxy_headers=False,  # the client's address and scheme are not used
        timeout_graceful_shutdown=settings.shutdown_timeout,
    )
