"""The composition root: builds the application of an HTTP process from its parts."""

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from fastapi import APIRouter, FastAPI
from starlette.routing import Route
from starlette.types import ASGIApp

from models.folder import Folder
from models.outputs.names import DENSE, MULTI, SPARSE
from service import __version__
from service.api import (
    batches,
    classify,
    cohere,
    cohere_v1,
    embed,
    embed_sparse,
    feature_extraction,
    files,
    model_admin,
    model_list,
    multi_vector,
    ollama,
    ollama_models,
    openai,
    openapi_document,
    positions,
    rerank,
    rerank_vendors,
    similarity,
    status,
    tokenize,
    tokens,
    words,
)
from service.api.embedding_service import EmbeddingService
from service.api.info import server_info
from service.api.model_choice import ModelChoice
from service.api.router import direct_routes, head_routes
from service.api.served_names import ServedNames
from service.batches.route_calls import RouteCalls
from service.batches.service import batch_service
from service.context import ModelContext, ServerContext
from service.engine.client.engine_connection import EngineConnection
from service.http import handlers
from service.http.browser_checks import BrowserChecks
from service.http.cors import with_cors
from service.http.headers import Headers
from service.http.keys import ApiKeys
from service.http.middleware import Middleware
from service.http.request_body import HttpLimits
from service.http.timeouts import Timeouts
from service.inference.served_model import ServedModel
from service.inputs.tokenization_queue import TokenizationQueue
from service.metrics import model_metrics
from service.metrics.metrics import Metrics
from service.playground import pages
from service.request.memory_budget import MemoryBudget
from service.settings.settings import Settings

log = logging.getLogger(__name__)

_DESCRIPTION = "Vectors of sentences, tokens and positions, and the cosine between them."

_UPLOAD_RATE = 1_000_000  # bytes per second that an upload needs to be in time
_FORM_BYTES = 1 << 12  # of a form around a file

S = TypeVar("S")

Background = Callable[[], Coroutine[Any, Any, None]]


def create_app(
    context: ServerContext,
    connections: Sequence[EngineConnection],
    background: Sequence[Background] = (),
    shutting_down: Callable[[], bool] = lambda: False,
) -> Middleware:
    """Build the application of one of a server's HTTP processes.

    connections: to the engine of each model. background: work that runs as long as the application,
    and is cancelled in reverse order. shutting_down: whether the server was told to stop.
    """
    settings = context.settings
    models = served_models(context, connections)
    metrics = model_metrics.metrics_of(models)
    limits = HttpLimits(
        settings.max_body_bytes,
        Timeouts(settings.receive_timeout),
        MemoryBudget(settings.max_buffered_bytes),
        settings.max_connections,
    )
    routers = _routers(context, models, metrics, shutting_down)
    json_routes = direct_routes(route for router in routers for route in router.routes)
    service = batch_service(settings, models, RouteCalls(json_routes, limits.budget))
    routers += [files.router(service), batches.router(service)]
    app = _fastapi(routers, _lifespan([*background, *([service.run] if service else [])]))
    paths = list(dict.fromkeys(route.path for route in app.routes if isinstance(route, Route)))
    metrics.track(paths)
    return Middleware(
        app,
        direct_routes(app.routes),
        root_path=settings.root_path,
        paths=paths,
        limits=limits,
        uploads={files.UPLOAD: _upload_limits(settings)},
        keys=ApiKeys([*settings.keys, *settings.admin_keys] if settings.keys else []),
        metrics=metrics,
        browsers=BrowserChecks.of(
            settings.host, settings.allowed_hosts, settings.cors_origins, bool(settings.keys)
        ),
    )


def wrap(app: Middleware, context: ServerContext) -> ASGIApp:
    """Put around the application what the settings ask for: traces, and CORS."""
    traced: ASGIApp = app
    if context.settings.tracing:
        from service.tracing.middleware import TracingMiddleware
        from service.tracing.spans import RequestSpans

        names = [model.settings.name for model in context.models]
        traced = TracingMiddleware(app, RequestSpans(names))
    return with_cors(traced, context.settings.cors_origins)


def _routers(
    context: ServerContext,
    models: Sequence[ServedModel],
    metrics: Metrics,
    shutting_down: Callable[[], bool],
) -> list[APIRouter]:
    settings, max_values = context.settings, context.settings.max_values
    names = ServedNames(*[m.settings.names for m in models], any_name=settings.any_name)

    def choice(service: Callable[[ServedModel], S], *offers: str) -> ModelChoice[S]:
        # Without a model's name, the first model that offers this, or else the first of all.
        default = next(
            (i for offer in offers for i, m in enumerate(models) if offer in m.offers), 0
        )
        return ModelChoice(names, [service(model) for model in models], default)

    def multi_vectors_of(model: ServedModel) -> multi_vector.MultiVectorService:
        return multi_vector.MultiVectorService(model.multi_vectors, model.name, max_values)

    embeddings = choice(
        lambda m: EmbeddingService(
            m.pipeline, m.name, m.dimensions, m.config.num_layers, max_values, multi_vectors_of(m)
        ),
        *(DENSE, MULTI),
    )
    sparse = choice(lambda m: embed_sparse.SparseService(m.pipeline, max_values), SPARSE)
    token_vectors = choice(
        lambda m: tokens.TokenVectorService(m.pipeline, m.config, max_values), "embed"
    )
    reranking = choice(
        lambda m: rerank.RerankService(m.pipeline, m.name, m.multi_vectors), "rerank", MULTI
    )
    classification = choice(
        lambda m: classify.ClassificationService(m.pipeline, m.name), "classify", "rerank"
    )
    similarities = choice(
        lambda m: similarity.SimilarityService(m.pipeline, max_values, m.multi_vectors),
        *(DENSE, MULTI),
    )
    word_questions = choice(
        lambda m: words.WordService(m.pipeline, m.words, m.config.num_vectors, max_values), DENSE
    )
    position_tables = choice(
        lambda m: positions.PositionService(m.pipeline, m.config, m.folder.bias_table(), max_values)
    )
    served = choice(lambda model: model)
    routers = [
        openapi_document.router(),
        embed.router(embeddings),
        embed_sparse.router(sparse),
        tokens.router(token_vectors),
        positions.router(position_tables),
        similarity.router(similarities),
        words.router(word_questions),
        multi_vector.router(choice(multi_vectors_of, MULTI)),
        rerank.router(reranking),
        rerank_vendors.router(reranking),
        classify.router(classification),
        tokenize.router(choice(lambda m: m.reader), settings.max_texts, settings.max_tokens),
        openai.router(embeddings, token_vectors),
        model_list.router(served, context.started),
        cohere.router(embeddings),
        cohere_v1.router(embeddings),
        ollama.router(embeddings),
        ollama_models.router(choice(ollama_models.OllamaModel)),
        model_admin.router(served, _admin_check(settings), settings.request_timeout),
        feature_extraction.router(embeddings),
        status.router(models, metrics, shutting_down, choice(_info)),
    ]
    return [*routers, pages.router()] if settings.playground else routers


def served_models(
    context: ServerContext, connections: Sequence[EngineConnection]
) -> list[ServedModel]:
    """Read the folder of each model; raises ModelError."""
    settings = context.settings
    queue = TokenizationQueue(settings.request_timeout, settings.max_wait)
    models = [
        ServedModel(
            model.settings,
            _folder(model),
            connection,
            queue,
            vector_cache_bytes=settings.vector_cache_bytes // len(connections),
            index=model.index,
        )
        for model, connection in zip(context.models, connections, strict=True)
    ]
    for model in models:
        model.record_weight_bytes()
    return models


def _folder(model: ModelContext) -> Folder:
    settings = model.settings
    return Folder.read(model.folder, settings.pooling, settings.rerank_format, settings.adapter)


def _upload_limits(settings: Settings) -> HttpLimits:
    # An upload is not kept in memory, so it has no budget; a slow client has time for a file.
    seconds = settings.receive_timeout + settings.batch_max_file_bytes / _UPLOAD_RATE
    return HttpLimits(settings.batch_max_file_bytes + _FORM_BYTES, Timeouts(seconds))


def _info(model: ServedModel) -> Callable[[], dict[str, Any]]:
    return functools.partial(
        server_info,
        *(model.settings, model.connection, model.folder, model.dimensions),
    )


def _admin_check(settings: Settings) -> Callable[[Headers], None] | None:
    return ApiKeys(settings.admin_keys).check if settings.admin_keys else None


def _fastapi(routers: Sequence[APIRouter], lifespan: Any) -> FastAPI:
    app = FastAPI(
        title="embedding-service",
        version=__version__,
        description=_DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # the address that clients use, a gateway's, is unknown here
    )
    for router in routers:  # a flat list, from which errors name the routes
        app.router.routes.extend(router.routes)
        app.router.routes.extend(head_routes(router.routes))
    handlers.install(app)
    document = functools.cache(functools.partial(openapi_document.openapi_document, app))
    app.openapi = document  # type: ignore[method-assign]
    return app


def _lifespan(background: Sequence[Background]) -> Any:
    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        running = [asyncio.create_task(run()) for run in background]
        yield
        for task in reversed(running):  # later tasks may need earlier ones
            task.cancel()
            await asyncio.wait([task])

    return lifespan
