"""The work of an HTTP process, which embedwell.launch.http_worker starts."""

import asyncio
import logging
import sys
import tempfile
from dataclasses import asdict
from functools import partial

from embedwell.launch import deferred_fastapi  # noqa: F401 - before FastAPI's first import

# isort: split
from embedwell import doors
from embedwell.app import create_app, with_cors_headers
from embedwell.compute.activity import Heartbeat
from embedwell.compute.engine_session import EngineSession
from embedwell.doors import ExtensionError
from embedwell.engine.wire.engine_state import CounterSlot, SharedCounters
from embedwell.engine.wire.messages import EngineDescription
from embedwell.gc_tuning import settle_heap
from embedwell.http.protocol.server import Server, uvicorn_config, vital
from embedwell.inherited import InheritedModel, InheritedServer
from embedwell.launch.logging import configure_logging
from embedwell.launch.signals import install_signal_handlers
from embedwell.launch.supervised import (
    EXIT_PERMANENT_FAILURE,
    REPLACE_LINE,
    STOP_LINE,
    tell_supervisor,
)
from embedwell_models.errors import ModelError

log = logging.getLogger(__name__)

doors.import_routes()  # with this module, so that the processes that are forked later share them


def main() -> None:
    """Serve until the watcher closes standard input, or dies."""
    context, row = InheritedServer.from_worker_config(sys.stdin.buffer.readline())
    configure_logging(context.settings.log_level, context.settings.log_format)
    install_signal_handlers(0)
    counters = context.counters(row)
    try:
        server = _server(context, row, counters)
    except (ModelError, ExtensionError) as error:
        # The model was readable before, so this may be temporary.
        if counters.row[CounterSlot.HEARTBEAT]:
            log.error("%s", error)
            sys.exit(1)
        tell_supervisor("failed", reason=str(error))
        sys.exit(EXIT_PERMANENT_FAILURE)
    server.run(sockets=context.listeners(row))
    sys.exit(int(server.failed or not server.started))


def _server(context: InheritedServer, row: int, counters: SharedCounters) -> Server:
    settings = context.settings

    # The system gives connections to a TCP port also to a process that hangs.
    shares_port = settings.workers > 1 and settings.listens_on_tcp

    def is_busy() -> bool:
        return shares_port or server.busy or settings.batch_folder is not None

    heartbeat = Heartbeat(counters.row, partial(tell_supervisor, "in_use"), is_busy)

    async def report_ready() -> None:
        server.stop_at_signals()
        await server.wait_listening()
        heartbeat.start()
        tell_supervisor("ready")

    async def wait_for_stop() -> None:
        closed = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin.fileno(), closed.set)
        await closed.wait()
        loop.remove_reader(sys.stdin.fileno())  # end of file stays readable
        line = sys.stdin.buffer.readline()
        if line == REPLACE_LINE:  # clients notice nothing, so they need no time for it
            server.stop(at_once=True)
        elif line == STOP_LINE:
            server.stop()
        else:
            log.critical("the first process of the server has ended; this process ends, too")
            for engine in engines:
                engine.abandon()
            server.fail()

    def fail() -> None:
        server.fail()

    if settings.batch_folder is not None:  # it has room for uploads, which /tmp may not have
        tempfile.tempdir = str(settings.batch_folder)
    engines = [_engine_session(model, row) for model in context.models]
    run = [vital(engine.run, fail) for engine in engines]
    background = [*run, report_ready, wait_for_stop]
    app = create_app(context, engines, background, lambda: server.stopping)
    config = uvicorn_config(settings, app, with_cors_headers(app, context), heartbeat)
    server = Server(config, settings.drain_delay, keeps_backlog=context.handed_over)
    return server


def _engine_session(model: InheritedModel, row: int) -> EngineSession:
    """Create a model's current engine, with reports to the first process."""

    def on_ready(description: EngineDescription) -> None:
        settle_heap()
        restarts = engine.restarts_when_connected
        tell_supervisor(
            "engine_ready", model=model.index, engine=asdict(description), restarts=restarts
        )

    def on_stall() -> None:
        restarts = engine.restarts_when_connected
        tell_supervisor("engine_stalled", model=model.index, restarts=restarts)

    engine = EngineSession(
        model.connect_engine,
        model.counters(row),
        on_ready,
        on_stall,
        on_wanted=partial(tell_supervisor, "engine_wanted", model=model.index),
        on_unwanted=partial(tell_supervisor, "engine_unwanted", model=model.index),
    )
    return engine
