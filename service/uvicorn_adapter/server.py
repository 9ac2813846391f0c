"""uvicorn as this server runs it."""

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

from service.http.cors import shared
from service.http.middleware import Middleware
from service.process.gc_tuning import map_large_blocks
from service.settings import Settings
from service.uvicorn_adapter.connection import Connection

log = logging.getLogger(__name__)

Work = Callable[[], Coroutine[Any, Any, None]]

_SWITCH = 0.0005  # seconds


class Server(uvicorn.Server):
    """uvicorn's, with a time between the signal to stop and the end of listening."""

    def __init__(self, config: uvicorn.Config, drain_delay: float) -> None:
        super().__init__(config)
        self._drain_delay, self._told = drain_delay, 0.0
        self.failed = False

    def fail(self) -> None:
        """Stop: there is nothing to serve."""
        self.failed = self.should_exit = True

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        # Python's own 5 ms is what every step of a query would wait for a thread that tokenises.
        sys.setswitchinterval(_SWITCH)
        map_large_blocks()
        # Each connection takes a descriptor; systems give 1024 and allow many more.
        with contextlib.suppress(OSError, ValueError):
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        super().run(sockets)

    async def on_tick(self, counter: int) -> bool:
        leaving = await super().on_tick(counter)
        if leaving and not self._told:
            self._told = time.monotonic()
        if not leaving or self.failed or self.force_exit:
            return leaving
        return time.monotonic() - self._told >= self._drain_delay


def vital(work: Work, fail: Callable[[], None]) -> Work:
    """Work without which there is nothing to serve: where it fails, `fail` is called."""

    async def run() -> None:
        try:
            await work()
        except Exception:
            log.critical("the server cannot go on", exc_info=True)
            fail()

    return run


def config(settings: Settings, app: Middleware) -> uvicorn.Config:
    """How uvicorn runs the application."""
    return uvicorn.Config(
        shared(app, settings.cors_origins),
        http=partial(Connection, app),  # type: ignore[arg-type]
        ws="none",
        log_config=None,
        access_log=settings.log_level == "debug",
        server_header=False,
        proxy_headers=False,  # nothing here depends on who the client is, or on its scheme
        timeout_keep_alive=75,  # longer than gateways keep an idle connection
        timeout_graceful_shutdown=settings.shutdown_timeout,
    )
