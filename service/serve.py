"""The first HTTP process of a server, which keeps the engine and the other ones running."""

import logging
import signal
import socket
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import orjson

from service import __version__
from service.app import create_app
from service.engine.link import Link
from service.engine.messages import Description, EngineSpec
from service.heap import freeze
from service.home import Home, claim, listener
from service.log import configure
from service.server import Server, config, vital
from service.settings import Settings
from service.supervisor import Child, Supervisor

_GRACE = 5.0  # seconds for a process that has given up its requests to say so to their clients

log = logging.getLogger(__name__)


def run(settings: Settings, model: Path) -> int:
    """Serve until told to stop; 0, or 1 when it cannot listen or load the model."""
    configure(settings.log_level)
    # uvicorn stops in good order, then raises the signal again: by then there is nothing left.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    with ExitStack() as stack:
        try:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="embedding-")))
            # Before the model is loaded: what cannot listen need not wait for it.
            first = stack.enter_context(claim(settings.host, settings.port))
            home = Home(settings, model, folder, first.getsockname()[1])
            lines = stack.enter_context(listener(home.address))
        except OSError as error:
            log.error("the server cannot start: %s", error)
            return 1
        if settings.workers > 1:
            return _serve(home, [first], lines)
        first.close()  # uvicorn itself listens on every address of a host's name
        return _serve(home, None, lines)


def _serve(home: Home, doors: list[socket.socket] | None, lines: socket.socket) -> int:
    def greet(description: Description) -> None:
        freeze()
        with suppress(OSError):  # nobody has to read it
            click.echo(greeting(settings, server.port, description), err=True)

    def stall() -> None:
        engine.kill()

    def refuse() -> None:
        server.fail()

    def leave() -> None:
        for other in others:
            other.leave()

    settings, board = home.settings, home.board(0)
    link = Link(home.address, board, greet, stall, settings.stall)
    spec, lent = orjson.dumps(_spec(home, lines)), [lines.fileno()]
    child = Child("the engine", "service.engine", spec, descriptors=lent)
    engine = Supervisor(child, refuse, link.restarted)
    others = [_other(home, row) for row in range(1, settings.workers)]
    work = [engine.run, link.run, *(other.run for other in others)]
    background = [vital(each, refuse) for each in work]
    app = create_app(settings, home.model, link, background, lambda: server.should_exit)
    server = Server(config(settings, app), settings.drain_delay, leave)
    server.run(sockets=doors)
    return int(server.failed or not server.started)


def _spec(home: Home, lines: socket.socket) -> EngineSpec:
    settings = home.settings
    return EngineSpec(
        folder=str(home.model),
        device=settings.device,
        dtype=settings.dtype,
        threads=settings.threads,
        max_batch_tokens=settings.max_batch_tokens,
        log_level=settings.log_level,
        listener=lines.fileno(),
    )


def _other(home: Home, row: int) -> Supervisor:
    patience = home.settings.drain_delay + home.settings.shutdown_timeout + _GRACE
    letter = home.letter(row)
    return Supervisor(Child("an HTTP process", "service.worker", letter, patience=patience))


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
