"""The application and its engine for any ASGI server: `uvicorn --factory service.asgi:create`.

`embedding-service serve` does more: it drops the work of clients that hang up, replaces an HTTP
process that hangs, limits connections, drains before a stop, and lets several HTTP processes share
one engine. Here each process of the ASGI server starts an engine of its own.
"""

import logging
import os
import signal
from contextlib import ExitStack
from dataclasses import asdict

import click
from starlette.types import ASGIApp

from models.errors import ModelError
from models.hub import sources
from service.app import create_app
from service.cli.options import read
from service.context import ServerContext
from service.engine.client.engine_connection import EngineConnection
from service.engine.protocol.fd_handoff import handoff_pair
from service.engine.protocol.messages import EngineDescription
from service.http.cors import with_cors
from service.process.gc_tuning import settle_heap
from service.process.logging import configure_logging
from service.process.shared_counters import counters_file
from service.server.engine_supervisor import EngineSupervisor

log = logging.getLogger(__name__)


def create() -> ASGIApp:
    """Build the application with settings from the environment or .env, except the address.

    Raises SystemExit with a message for an invalid setting, or a model that cannot be fetched.
    """
    try:
        settings = read({"workers": 1})
        model = sources.resolve(settings.model, revision=settings.revision, cache=settings.cache)
    except (click.UsageError, ModelError) as error:
        raise SystemExit(f"Error: {error}") from None
    configure_logging(settings.log_level)
    resources = ExitStack()
    request_socket, engine_socket = map(resources.enter_context, handoff_pair())
    context = ServerContext(
        settings,
        model,
        port=settings.port,
        listener_fds=[],
        counters_fd=resources.enter_context(counters_file(2)),
        handoff_fd=request_socket.fileno(),
    )
    engine = EngineSupervisor(context, engine_socket.fileno())

    def on_ready(description: EngineDescription) -> None:
        settle_heap()
        log.info("the engine is ready: %s", asdict(description))

    connection = EngineConnection(
        context.connect_engine,
        context.counters(0),
        on_ready,
        lambda: engine.replace_stalled(connection.restarts_when_connected),
    )

    async def run_engine() -> None:
        with resources:
            await engine.run()
        os.kill(os.getpid(), signal.SIGTERM)  # the engine has logged why it cannot go on

    app = create_app(context, connection, [run_engine, connection.run])
    return with_cors(app, settings.cors_origins)
