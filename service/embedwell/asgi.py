"""The application and its engine for any ASGI server: `uvicorn --factory embedwell.asgi:create`.

`embedwell serve` does more: it cancels the work of clients that disconnect, restarts an HTTP
process that hangs, limits connections, drains before a stop, and lets several HTTP processes share
one engine. Here each process of the ASGI server starts an engine of its own.
"""

import logging
import os
import signal
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from typing import Any

import click
from starlette.types import ASGIApp

from embedwell.app import create_app, with_cors_headers
from embedwell.cli.options import model_folder, read, require_tracing
from embedwell.compute.engine_session import EngineSession
from embedwell.doors import ExtensionError
from embedwell.engine.wire.messages import EngineDescription
from embedwell.gc_tuning import settle_heap
from embedwell.inherited import InheritedModel, InheritedServer
from embedwell.launch.bootstrap import open_model_contexts
from embedwell.launch.logging import configure_logging
from embedwell.launch.model_engines import ModelEngines
from embedwell.settings.model_settings import expand_adapters, model_settings
from embedwell_models.errors import ModelError

log = logging.getLogger(__name__)


def create(**values: Any) -> ASGIApp:
    """Build the application with settings from the environment or .env, except the address.

    Raises SystemExit with a message for an invalid setting, or a model that cannot be fetched.

    values: settings with precedence over those.
    """
    try:
        settings = read({**values, "workers": 1})
        if settings.tracing or settings.otlp_metrics:
            require_tracing()
        models = [
            each
            for model in model_settings(settings)
            for each in expand_adapters(model, model_folder(model))
        ]
    except (click.ClickException, ValueError, ModelError) as error:
        raise SystemExit(f"Error: {error}") from None
    configure_logging(settings.log_level, settings.log_format)
    resources = ExitStack()
    contexts, engine_fds = open_model_contexts(settings, models, resources)
    context = InheritedServer(settings, contexts, port=settings.port, listener_fds=[])
    engines = ModelEngines(context, engine_fds)
    engine_sessions = [_engine_session(model, engines) for model in contexts]

    async def run_engines() -> None:
        with resources:
            await engines.run()
        log.error("the server ends: %s", engines.failure or "see the lines above")
        os.kill(os.getpid(), signal.SIGTERM)

    background = [run_engines, *(each.run for each in engine_sessions)]
    try:
        app = create_app(context, engine_sessions, background)
    except ExtensionError as error:
        resources.close()
        raise SystemExit(f"Error: {error}") from None
    return with_cors_headers(app, context)


def _engine_session(model: InheritedModel, engines: ModelEngines) -> EngineSession:
    own = engines.engines[model.index]

    def on_ready(description: EngineDescription) -> None:
        settle_heap()
        log.info("the engine of %s is ready: %s", model.label, asdict(description))

    engine = EngineSession(
        model.connect_engine,
        model.counters(0),
        on_ready,
        lambda: own.replace_stalled(engine.restarts_when_connected),
        on_wanted=partial(engines.load, own),
        on_unwanted=partial(engines.unload, own),
    )
    return engine
