"""Composition root: build the application of an HTTP process from its parts; list the endpoints."""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.routing import Route
from starlette.types import ASGIApp

from embedwell import doors
from embedwell.compute.activity import Activity
from embedwell.compute.admission import check_unread
from embedwell.compute.engine_session import EngineSession
from embedwell.compute.request_limits import MemoryBudget
from embedwell.compute.served_model import ServedModel, with_prompts
from embedwell.compute.work_queue import ComparisonQueue, WorkQueue
from embedwell.fastapi_app import Background, fastapi_app
from embedwell.http.access import ApiKeys, BrowserChecks, with_cors
from embedwell.http.http_limits import HttpLimits, Timeouts
from embedwell.http.middleware import Middleware
from embedwell.http.request_context import ModelPaths
from embedwell.inherited import InheritedServer
from embedwell.routes.common.lazy_route import lazy_routes
from embedwell.routes.common.openapi_responses import EXPOSED_HEADERS
from embedwell.routes.common.router import DirectRoute, direct_routes, traits_by_path
from embedwell.routes.common.server_state import ServerState
from embedwell.routes.index import ROUTES
from embedwell.settings.settings import Settings
from embedwell.telemetry.metrics import Metrics, build_metrics
from embedwell_models.description.model_description import ModelDescription

if TYPE_CHECKING:  # settings enable them
    from embedwell.compute.engine_set import EngineHandle
    from embedwell.telemetry.exports import MetricsExport, RequestSpans

log = logging.getLogger(__name__)

_UPLOAD_RATE = 1_000_000  # bytes per second that an upload needs to arrive in time
_FORM_BYTES = 1 << 12  # bytes of a form around a file


def create_app(
    context: InheritedServer,
    engines: Sequence[EngineSession],
    background: Sequence[Background] = (),
    shutting_down: Callable[[], bool] = lambda: False,
) -> Middleware:
    """Build the application of one of a server's HTTP processes.

    engines: engines of the models in their order, or of the devices of the only model.
    background: work that runs as long as the application, and is cancelled in reverse order.
    shutting_down: returns whether the server was told to stop.
    """
    settings = context.settings
    host = settings.host if settings.listens_on_tcp else ""
    models = served_models(context, engines)
    metrics = build_metrics(models)
    limits = _http_limits(settings)
    routers = _create_routers(context, models, metrics, limits.budget, shutting_down)
    spans = _spans(context)
    first = [each.run for each in (spans, _metrics_export(context, models, metrics)) if each]
    app = fastapi_app(routers, [*first, *background])
    metrics.track(dict.fromkeys(r.path for r in app.routes if isinstance(r, Route)))
    # A cached vector takes no time of the engine, however long its queue is.
    admissions = [] if settings.vector_cache_bytes else [model.admission for model in models]
    return Middleware(
        app,
        direct_routes(app),
        traits_by_path(app.routes),
        root_path=settings.root_path,
        limits=limits,
        upload_limits=_upload_limits(settings),
        keys=ApiKeys([*settings.keys, *settings.admin_keys]) if settings.keys else None,
        metrics=metrics,
        browsers=BrowserChecks.of(
            host, settings.allowed_hosts, settings.cors_origins, bool(settings.keys)
        ),
        models=ModelPaths({name: model.index for model in models for name in model.settings.names}),
        check_load=partial(check_unread, admissions),
        on_end=spans.record if spans else None,
        activity=Activity(models[0].engine.counters) if settings.idle_exit else None,
    )


def _create_routers(
    context: InheritedServer,
    models: Sequence[ServedModel],
    metrics: Metrics,
    memory: MemoryBudget,
    shutting_down: Callable[[], bool],
) -> list[APIRouter]:
    """Create the routers of a server and of other packages; raises ExtensionError.

    memory: memory for large requests.
    shutting_down: returns whether the server was told to stop.
    """
    routers, routes = list[APIRouter](), dict[str, DirectRoute]()
    server = ServerState(
        settings=context.settings,
        models=models,
        metrics=metrics,
        started=context.started,
        shutting_down=shutting_down,
        memory=memory,
        routes=routes,
    )
    own = (_router(name, server) for name in doors.ROUTES)
    others = _extension_routers(server, routers)
    for router in chain(own, others):
        routers.append(router)
        for path, route in direct_routes(router).items():
            routes.setdefault(path, route)  # of several, the first serves the path
    return routers


def _router(name: str, server: ServerState) -> APIRouter:
    """Create a router of doors.ROUTES, or routes that do so when they are used."""
    create = partial(create_router, name, server)
    if name not in ROUTES or (name == "batches" and server.settings.batch_folder):
        return create()
    return APIRouter(routes=lazy_routes(ROUTES[name], create))


def create_router(name: str, server: ServerState) -> APIRouter:
    """Create a router of doors.ROUTES; imports its module."""
    router: APIRouter = doors.load(doors.ROUTES[name])(server)
    return router


def _extension_routers(server: ServerState, before: Sequence[APIRouter]) -> Iterator[APIRouter]:
    """Create the routers of other packages, and warn of their routes that others have, too.

    before: all routers before the one that is created next.
    """
    for package, create in doors.load_extension_routes():
        router: APIRouter = create(server)
        taken = _calls(*before)
        for method, path in _calls(router):
            if (method, path) in taken:
                log.warning(
                    "%s %s of %s is ignored: another router has this path", method, path, package
                )
        yield router


def _calls(*routers: APIRouter) -> list[tuple[str, str]]:
    """List methods and paths of routes."""
    routes = chain.from_iterable(router.routes for router in routers)
    return [
        (method, route.path)
        for route in routes
        if isinstance(route, Route)
        for method in sorted(route.methods or ())
    ]


def with_cors_headers(app: Middleware, context: InheritedServer) -> ASGIApp:
    """Add CORS headers for the origins in the settings."""
    return with_cors(app, context.settings.cors_origins, EXPOSED_HEADERS)


def _spans(context: InheritedServer) -> "RequestSpans | None":
    if not context.settings.tracing:
        return None
    names = dict.fromkeys(model.settings.name for model in context.models)
    spans: RequestSpans = doors.load(doors.TRACING)(list(names))
    return spans


def _metrics_export(
    context: InheritedServer, models: Sequence[ServedModel], metrics: Metrics
) -> "MetricsExport | None":
    """Return the export of all processes' metrics in the first one; None in the others."""
    if not context.settings.otlp_metrics or models[0].engine.counters.index:
        return None
    export: MetricsExport = doors.load(doors.METRICS_EXPORT)(metrics.collect, context.started)
    return export


def served_models(context: InheritedServer, engines: Sequence[EngineSession]) -> list[ServedModel]:
    """Read the folder of each model; raises ModelError."""
    settings = context.settings
    queue = WorkQueue(settings.request_timeout, settings.max_wait, settings.max_wait_large)
    comparisons = ComparisonQueue.of(settings)
    engine_per_model: Sequence[EngineHandle] = engines
    if names := settings.engine_names:
        from embedwell.compute.engine_set import EngineSet  # of several devices

        engine_per_model = [EngineSet(dict(zip(names, engines, strict=True)))]
    contexts = context.models[: len(engine_per_model)]  # several devices compute a single model
    models = [
        ServedModel(
            model.settings,
            describe(model.settings, model.folder),
            engine,
            queue,
            comparisons,
            vector_cache_bytes=settings.vector_cache_bytes // len(engine_per_model),
            index=model.index,
        )
        for model, engine in zip(contexts, engine_per_model, strict=True)
    ]
    for model in models:
        model.record_weight_bytes()
    return models


def describe(settings: Settings, folder: Path) -> ModelDescription:
    """Read the description of a model with its prompts; raises ModelError."""
    description = ModelDescription.read(folder, settings.options)
    return with_prompts(description, settings.prompts, settings.model)


def _http_limits(settings: Settings) -> HttpLimits:
    return HttpLimits(
        settings.max_body_bytes,
        Timeouts(settings.receive_timeout),
        MemoryBudget(settings.max_buffered_bytes),
        settings.max_connections,
    )


def _upload_limits(settings: Settings) -> HttpLimits:
    # An upload is not kept in memory, so it needs no budget. A slow client gets time for a file.
    seconds = settings.receive_timeout + settings.batch_max_file_bytes / _UPLOAD_RATE
    return HttpLimits(settings.batch_max_file_bytes + _FORM_BYTES, Timeouts(seconds))
