"""Runs the application under uvicorn and says where it listens."""

import signal
import sys
import time
from functools import partial
from pathlib import Path

import click
import uvicorn

from service import __version__
from service.app import create_app
from service.connection import Connection
from service.edge import Edge
from service.engine.messages import Description
from service.heap import freeze
from service.log import configure
from service.settings import Settings


class Server(uvicorn.Server):
    """uvicorn's, with a time between the signal to stop and the end of listening."""

    def __init__(self, config: uvicorn.Config, drain_delay: float) -> None:
        super().__init__(config)
        self._drain_delay, self._told = drain_delay, 0.0
        self.failed = False

    def fail(self) -> None:
        """Stop: there is nothing to serve."""
        self.failed = self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        leaving = await super().on_tick(counter)
        if not leaving or self.failed or self.force_exit:
            return leaving
        self._told = self._told or time.monotonic()
        return time.monotonic() - self._told >= self._drain_delay

    @property
    def port(self) -> int:
        """Where it listens."""
        sockets = [socket for listener in self.servers for socket in listener.sockets]
        return int(sockets[0].getsockname()[1])


def run(settings: Settings, folder: Path) -> int:
    """Serve until told to stop; 0, or 1 when the engine will not load the model."""
    configure(settings.log_level)
    # uvicorn stops in good order, then raises the signal again: by then there is nothing left.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))

    def greet(description: Description) -> None:
        freeze()
        click.echo(greeting(settings, server.port, description), err=True)

    def stop() -> None:
        server.fail()

    app = create_app(
        settings,
        folder,
        on_ready=greet,
        on_refused=stop,
        leaving=lambda: server.should_exit,
    )
    server = Server(_config(settings, app), settings.drain_delay)
    server.run()
    return int(server.failed or not server.started)


def _config(settings: Settings, app: Edge) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=partial(Connection, app.patience),  # type: ignore[arg-type]
        log_config=None,
        access_log=settings.log_level == "debug",
        server_header=False,
        timeout_keep_alive=75,  # longer than gateways keep an idle connection
        timeout_graceful_shutdown=settings.shutdown_timeout,
    )


def greeting(settings: Settings, port: int, engine: Description) -> str:
    """Where the server listens, what it serves, and a line to try."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"http://{host}:{port}{settings.root_path}"
    key = "" if settings.api_key is None else " -H 'authorization: Bearer KEY'"
    return (
        f"\nembedding-service {__version__} listens on {url}  (API: {url}/docs)\n"
        f"model {settings.name}: {engine.dim} dimensions, {engine.max_length} tokens, "
        f"on {engine.device} in {engine.dtype}, {engine.threads} threads\n"
        f'try: curl -s {url}/embed{key} -d \'{{"inputs": "Hello, world"}}\'\n'
    )
