"""uvicorn's server and its configuration."""

import contextlib
import logging
import resource
import socket
import sys
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from embedwell.http.middleware import Middleware
from embedwell.process.gc_tuning import map_large_blocks
from embedwell.settings.settings import Settings
from embedwell.uvicorn_adapter.connection import Connection
from embedwell.uvicorn_adapter.connection_limit import ConnectionLimit

log = logging.getLogger(__name__)

Work = Callable[[], Coroutine[Any, Any, None]]

_SWITCH = 0.0005  # seconds


class Server(uvicorn.Server):
    """uvicorn's server, which continues to listen for a while after the signal to stop."""

    def __init__(self, config: uvicorn.Config, drain_delay: float) -> None:
        super().__init__(config)
        self._drain_delay, self._signalled = drain_delay, 0.0
        self.failed = False

    def fail(self) -> None:
        """Stop with a failure."""
        self.failed = self.should_exit = True

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        # With Python's default, the event loop would wait 5 ms whenever a thread tokenises.
        sys.setswitchinterval(_SWITCH)
        map_large_blocks()
        # Each connection takes a descriptor; the default limit is 1024, but systems allow more.
        with contextlib.suppress(OSError, ValueError):
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        super().run(sockets)

    async def on_tick(self, counter: int) -> bool:
        stopping = await super().on_tick(counter)
        if stopping and not self._signalled:
            self._signalled = time.monotonic()
        if not stopping or self.failed or self.force_exit:
            return stopping
        return time.monotonic() - self._signalled >= self._drain_delay


def vital(work: Work, fail: Callable[[], None]) -> Work:
    """Wrap work that the server needs, so that `fail` is called when it raises."""

    async def run() -> None:
        try:
            await work()
        except Exception:
            log.critical("the server cannot continue and stops", exc_info=True)
            fail()

    return run


def config(settings: Settings, middleware: Middleware, app: ASGIApp) -> uvicorn.Config:
    """Configure uvicorn for the application.

    middleware: part of the application; connections have its limits.
    """
    return uvicorn.Config(
        app,
        http=partial(Connection, middleware, ConnectionLimit(middleware.limits.connections)),  # type: ignore[arg-type]
        ws="none",
        log_config=None,
        access_log=settings.log_level == "debug",
        server_header=False,
        proxy_headers=False,  # the client's address and scheme are not used
        timeout_keep_alive=75,  # longer than gateways keep idle connections
        timeout_graceful_shutdown=settings.shutdown_timeout,
    )
