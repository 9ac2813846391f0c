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

from embedwell.gc_tuning import map_large_blocks
from embedwell.http.http_limits import ConnectionLimit
from embedwell.http.middleware import Middleware
from embedwell.http.protocol.connection import Connection
from embedwell.settings.settings import Settings

log = logging.getLogger(__name__)

Work = Callable[[], Coroutine[Any, Any, None]]

_SWITCH = 0.0005  # seconds
_POLL_SECONDS = 0.005


class Server:
    """uvicorn's server, which continues to listen for a while after the request to stop."""

    def __init__(self, config: uvicorn.Config, drain_delay: float) -> None:
        """drain_delay: seconds."""
        self._uvicorn, self._drain_delay = uvicorn.Server(config), drain_delay
        self.failed = self.stopping = False

    @property
    def started(self) -> bool:
        """Whether it has listened."""
        return self._uvicorn.started

    async def wait_listening(self) -> None:
        """Wait until it listens, which it never does if the application cannot be prepared."""
        while not self._uvicorn.started:
            await asyncio.sleep(_POLL_SECONDS)

    def stop(self, at_once: bool = False) -> None:
        """Stop after the delay; at the second call or `at_once` without it."""
        if at_once or self.stopping or not self._drain_delay:
            self._exit()
        else:
            asyncio.get_running_loop().call_later(self._drain_delay, self._exit)
        self.stopping = True

    def fail(self) -> None:
        """Stop with a failure, at once."""
        self.failed = self.stopping = True
        self._exit()

    def stop_at_signals(self) -> None:
        """Handle the signals for termination; call it while the server runs."""
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.stop)

    def run(self, sockets: list[socket.socket]) -> None:
        """Serve on these sockets until the server stops."""
        # With Python's default, the event loop would wait 5 ms whenever a thread tokenises.
        sys.setswitchinterval(_SWITCH)
        map_large_blocks()
        # Each connection takes a descriptor; the default limit is 1024, but systems allow more.
        with contextlib.suppress(OSError, ValueError):
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self._uvicorn.run(sockets)

    def _exit(self) -> None:
        self._uvicorn.should_exit = True


def vital(work: Work, fail: Callable[[], None]) -> Work:
    """Wrap work that the server needs, so that `fail` is called when it raises."""

    async def run() -> None:
        try:
            await work()
        except Exception:
            log.critical("the server cannot continue and stops", exc_info=True)
            fail()

    return run


def uvicorn_config(settings: Settings, middleware: Middleware, app: ASGIApp) -> uvicorn.Config:
    """Configure uvicorn for the application.

    middleware: part of the application; connections have its limits.
    """
    return uvicorn.Config(
        app,
        http=partial(Connection, middleware, ConnectionLimit(middleware.limits.connections)),  # type: ignore[arg-type]
        ws="none",
        log_config=None,
        server_header=False,
        proxy_headers=False,  # the client's address and scheme are not used
        timeout_graceful_shutdown=settings.shutdown_timeout,
    )
