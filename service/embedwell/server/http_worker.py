"""HTTP process of a server: `python -m embedwell.server.http_worker`."""

import asyncio
import logging
import sys
import tempfile
from dataclasses import asdict
from functools import partial

import click

from embedwell.app import create_app, wrap
from embedwell.context import ModelContext, ServerContext
from embedwell.engine.client.current_engine import CurrentEngine
from embedwell.engine.protocol.messages import EngineDescription
from embedwell.process.gc_tuning import settle_heap
from embedwell.process.logging import configure_logging
from embedwell.process.reports import report
from embedwell.process.shared_counters import SharedCounters, Slot
from embedwell.process.signals import install_signal_handlers
from embedwell.process.supervisor import EXIT_PERMANENT_FAILURE
from embedwell.uvicorn_adapter.server import Server, config, vital
from embedwell_models.errors import ModelError

log = logging.getLogger(__name__)

_HEARTBEAT = 1.0  # seconds


def main() -> None:
    """Serve until the watcher closes standard input, which also happens when the watcher dies."""
    context, row = ServerContext.from_worker_config(sys.stdin.buffer.readline())
    configure_logging(context.settings.log_level, context.settings.log_format)
    install_signal_handlers(0)
    counters = context.counters(row)
    try:
        server = _server(context, row, counters)
    except ModelError as error:
        if counters.row[Slot.HEARTBEAT]:  # the model was readable before, so this may be temporary
            log.error("%s", error)
            sys.exit(1)
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_PERMANENT_FAILURE)
    server.run(sockets=context.listeners(row))
    sys.exit(int(server.failed or not server.started))


def _server(context: ServerContext, row: int, counters: SharedCounters) -> Server:
    async def beat() -> None:
        report("ready")
        while True:
            counters.row[Slot.HEARTBEAT] += 1
            await asyncio.sleep(_HEARTBEAT)

    async def wait_for_stop() -> None:
        closed = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin.fileno(), closed.set)
        await closed.wait()
        loop.remove_reader(sys.stdin.fileno())  # end of file stays readable
        server.should_exit = True

    def fail() -> None:
        server.fail()

    settings = context.settings
    if settings.batch_folder is not None:  # it has room for uploads, which /tmp may not have
        tempfile.tempdir = str(settings.batch_folder)
    engines = [_current_engine(model, row) for model in context.models]
    if counters.row[Slot.HEARTBEAT]:  # restarted: requests arrive before the engine connects
        for engine in engines:
            engine.treat_as_restarting()
    run = [vital(engine.run, fail) for engine in engines]
    background = [*run, beat, wait_for_stop]
    app = create_app(context, engines, background, lambda: server.should_exit)
    server = Server(config(settings, app, wrap(app, context)), settings.drain_delay)
    return server


def _current_engine(model: ModelContext, row: int) -> CurrentEngine:
    """Create a model's current engine, with reports to the first process."""

    def on_ready(description: EngineDescription) -> None:
        settle_heap()
        restarts = engine.restarts_when_connected
        report("engine_ready", model=model.index, engine=asdict(description), restarts=restarts)

    def on_stall() -> None:
        restarts = engine.restarts_when_connected
        report("engine_stalled", model=model.index, restarts=restarts)

    engine = CurrentEngine(
        model.connect_engine,
        model.counters(row),
        on_ready,
        on_stall,
        on_wanted=partial(report, "engine_wanted", model=model.index),
        on_unwanted=partial(report, "engine_unwanted", model=model.index),
    )
    return engine


if __name__ == "__main__":
    main()
