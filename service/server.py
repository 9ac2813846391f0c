"""Runs the application under uvicorn and says where it listens."""

import signal
import sys
from pathlib import Path

import click
import uvicorn

from service import __version__
from service.app import create_app
from service.connection import Connection
from service.engine.messages import Description
from service.heap import freeze
from service.log import configure
from service.settings import Settings


def run(settings: Settings, folder: Path) -> int:
    """Serve until told to stop; 0, or 1 when the engine will not load the model."""
    configure(settings.log_level)
    # uvicorn stops in good order, then raises the signal again: by then there is nothing left.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    failed = False

    def greet(description: Description) -> None:
        freeze()
        click.echo(greeting(settings, _port(server), description), err=True)

    def stop() -> None:
        nonlocal failed
        failed = server.should_exit = True

    server = uvicorn.Server(
        uvicorn.Config(
            create_app(settings, folder, on_ready=greet, on_refused=stop),
            host=settings.host,
            port=settings.port,
            http=Connection,
            log_config=None,
            access_log=settings.log_level == "debug",
            server_header=False,
            timeout_keep_alive=75,  # longer than gateways keep an idle connection
            timeout_graceful_shutdown=settings.shutdown_timeout,
        )
    )
    server.run()
    return int(failed or not server.started)


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


def _port(server: uvicorn.Server) -> int:
    sockets = [socket for listener in server.servers for socket in listener.sockets]
    return int(sockets[0].getsockname()[1])
