"""The first HTTP process of a server, which keeps the engine and the other ones running."""

import logging
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import click
import orjson

from service import __version__
from service.app import create_app
from service.board import table
from service.engine.exchange import exchange
from service.engine.link import Link
from service.engine.messages import Description, EngineSpec
from service.heap import freeze
from service.home import Home
from service.http.listeners import claim
from service.http.server import Server, config, vital
from service.log import configure
from service.settings import Settings
from service.supervisor import Child, Supervisor

_GRACE = 5.0  # seconds for a process that has given up its requests to say so to their clients

log = logging.getLogger(__name__)


def run(settings: Settings, model: Path) -> int:
    """Serve until told to stop; 0, or 1 when it cannot listen or load the model."""
    configure(settings.log_level)
    with ExitStack() as stack:
        try:
            # Before the model is loaded: what cannot listen need not wait for it.
            listeners = [
                stack.enter_context(listener) for listener in claim(settings.host, settings.port)
            ]
            asking, giving = map(stack.enter_context, exchange())
            memory = stack.enter_context(table(settings.workers))
        except OSError as error:
            log.error("the server cannot start: %s", error)
            return 1
        port = listeners[0].getsockname()[1]
        home = Home(settings, model, port, memory, asking.fileno())
        return _serve(home, listeners, giving.fileno())


def _serve(home: Home, listeners: list[socket.socket], giving: int) -> int:
    def greet(description: Description) -> None:
        freeze()
        with suppress(OSError):  # nobody has to read it
            click.echo(greeting(settings, home.port, description), err=True)

    def stall() -> None:
        engine.kill()

    def refuse() -> None:
        server.fail()

    def leave() -> None:
        for other in others:
            other.leave()
            if server.failed:  # then there is nothing to finish
                other.kill()

    settings, board = home.settings, home.board(0)
    link = Link(home.ask, board, greet, stall, settings.stall)
    spec = orjson.dumps(_spec(home, giving))
    child = Child("the engine", "service.engine", spec, descriptors=[giving])
    engine = Supervisor(child, refuse, link.restarted)
    others = [_other(home, row, partial(board.bury, row)) for row in range(1, settings.workers)]
    work = [engine.run, link.run, *(other.run for other in others)]
    background = [vital(each, refuse) for each in work]
    app = create_app(home, link, background, lambda: server.should_exit)
    server = Server(config(settings, app), settings.drain_delay, leave)
    server.run(sockets=listeners)
    return int(server.failed or not server.started)


def _spec(home: Home, giving: int) -> EngineSpec:
    settings = home.settings
    return EngineSpec(
        folder=str(home.model),
        device=settings.device,
        dtype=settings.dtype,
        threads=settings.threads,
        max_batch_tokens=settings.max_batch_tokens,
        log_level=settings.log_level,
        exchange=giving,
    )


def _other(home: Home, row: int, on_restart: Callable[[], None]) -> Supervisor:
    patience = home.settings.drain_delay + home.settings.shutdown_timeout + _GRACE
    letter, lent = home.letter(row), [home.table, home.asking]
    child = Child("an HTTP process", "service.worker", letter, lent, patience)
    return Supervisor(child, on_restart=on_restart)


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
