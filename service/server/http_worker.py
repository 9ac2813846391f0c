"""An HTTP process of a server: `python -m service.server.http_worker`."""

import asyncio
import logging
import sys
from dataclasses import asdict

import click

from models.errors import ModelError
from service.app import create_app
from service.context import ServerContext
from service.engine.client.engine_connection import EngineConnection
from service.engine.protocol.messages import EngineDescription
from service.process.gc_tuning import settle_heap
from service.process.logging import configure_logging
from service.process.reports import report
from service.process.shared_counters import SharedCounters, Slot
from service.process.signals import install_signal_handlers
from service.process.supervisor import EXIT_PERMANENT_FAILURE
from service.uvicorn_adapter.server import Server, config, vital

log = logging.getLogger(__name__)

_HEARTBEAT = 1.0  # seconds


def main() -> None:
    """Serve until the watcher closes standard input, as it also does when it dies."""
    context, row = ServerContext.from_worker_config(sys.stdin.buffer.readline())
    configure_logging(context.settings.log_level)
    install_signal_handlers(0)
    counters = context.counters(row)
    try:
        server = _server(context, counters)
    except ModelError as error:
        if counters.row[Slot.HEARTBEAT]:  # the model was readable once, and may be again
            log.error("%s", error)
            sys.exit(1)
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_PERMANENT_FAILURE)
    server.run(sockets=context.listeners(row))
    sys.exit(int(server.failed or not server.started))


def _server(context: ServerContext, counters: SharedCounters) -> Server:
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

    def on_ready(engine: EngineDescription) -> None:
        settle_heap()
        report("engine_ready", engine=asdict(engine), restarts=connection.restarts_when_connected)

    def on_stall() -> None:
        report("engine_stalled", restarts=connection.restarts_when_connected)

    def fail() -> None:
        server.fail()

    settings = context.settings
    connection = EngineConnection(context.connect_engine, counters, on_ready, on_stall)
    if counters.row[Slot.HEARTBEAT]:  # restarted: requests come before the engine connects
        connection.treat_as_restarting()
    background = [vital(connection.run, fail), beat, wait_for_stop]
    app = create_app(context, connection, background, lambda: server.should_exit)
    server = Server(config(settings, app), settings.drain_delay)
    return server


if __name__ == "__main__":
    main()
