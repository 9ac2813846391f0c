"""The composition root of an HTTP process: what its application is made of."""

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.routing import Route

from models.folder import Folder
from models.sentence_transformers.matryoshka import declared
from service import __version__
from service.api import (
    cohere,
    cohere_v1,
    embed,
    feature_extraction,
    ollama,
    ollama_models,
    openai,
    openapi_document,
    positions,
    similarity,
    status,
    tokenize,
    tokens,
)
from service.api.info import server_info
from service.api.router import direct_routes, head_routes
from service.api.served_names import ServedNames
from service.context import ServerContext
from service.engine.host.engine_connection import EngineConnection
from service.engine.host.replay import Replay
from service.http import handlers
from service.http.browser_checks import BrowserChecks
from service.http.keys import ApiKeys
from service.http.middleware import Middleware
from service.http.request_body import HttpLimits
from service.http.timeouts import Timeouts
from service.inference.dimensions import Dimensions
from service.inference.pipeline import Pipeline
from service.inference.vector_cache import VectorCache
from service.inputs.reader import InputReader
from service.inputs.tokenization_queue import TokenizationQueue
from service.metrics import Metrics
from service.request.admission import Admission
from service.request.limits import MAX_UNSPLIT_CHARACTERS
from service.request.memory_budget import MemoryBudget
from service.settings import Settings

log = logging.getLogger(__name__)

_ABOUT = "Vectors of sentences, tokens and positions, and the cosine between them."


Background = Callable[[], Coroutine[Any, Any, None]]


def create_app(
    context: ServerContext,
    link: EngineConnection,
    background: Sequence[Background] = (),
    leaving: Callable[[], bool] = lambda: False,
) -> Middleware:
    """The application of a server, in one of its HTTP processes.

    background: what runs as long as it does, and ends in the other order. leaving: whether the
    server was told to stop.
    """
    settings, model = context.settings, Folder.read(context.model, context.settings.pooling)
    config, sentence = model.blueprint.config, model.sentence
    reader = _reader(settings, model)
    admission = _admission(settings, link)
    replay = Replay(link, link.counters)
    metrics = _metrics(admission, link, replay)
    kept = settings.vector_cache_bytes
    engine = VectorCache(replay, kept) if kept else replay
    pipeline = Pipeline(reader, admission, engine, settings.request_timeout)
    names, most = ServedNames(settings.names, settings.any_name), settings.max_values
    lengths = declared(model.encoder, model.dim)
    dimensions = Dimensions.from_setting(settings.dimensions, model.dim, lengths)
    embedding = embed.EmbeddingService(pipeline, names, dimensions, config.num_layers)
    states = tokens.TokenVectorService(pipeline, config, most)
    about = functools.partial(server_info, settings, link, sentence, dimensions)
    routers = [
        openapi_document.router(),
        embed.router(embedding),
        tokens.router(states),
        positions.router(positions.PositionService(pipeline, config, model.bias_table(), most)),
        similarity.router(pipeline, most),
        tokenize.router(reader, settings.max_texts, settings.max_tokens),
        openai.router(embedding, states, context.started, lambda: admission.queued),
        cohere.router(embedding),
        cohere_v1.router(embedding),
        ollama.router(embedding),
        ollama_models.router(ollama_models.OllamaModels(names, model, link)),
        feature_extraction.router(embedding),
        status.router(link, admission, metrics, leaving, about),
    ]
    app = _fastapi(routers, _lifespan(background))
    paths = list(dict.fromkeys(route.path for route in app.routes if isinstance(route, Route)))
    metrics.track(paths)
    return Middleware(
        app,
        direct_routes(app.routes),
        root_path=settings.root_path,
        paths=paths,
        limits=HttpLimits(
            settings.max_body_bytes,
            Timeouts(settings.receive_timeout),
            MemoryBudget(settings.max_buffered_bytes),
            settings.max_connections,
        ),
        keys=ApiKeys(settings.keys),
        metrics=metrics,
        browsers=BrowserChecks.of(
            settings.host, settings.allowed_hosts, settings.cors_origins, bool(settings.keys)
        ),
    )


def _reader(settings: Settings, model: Folder) -> InputReader:
    return InputReader(
        model.tokenizer(MAX_UNSPLIT_CHARACTERS),
        model.sentence,
        TokenizationQueue(settings.request_timeout, settings.max_wait),
        vocabulary_rows=model.blueprint.config.vocab_size,
        min_tokens=model.blueprint.config.shortest,
        max_texts=settings.max_texts,
        max_tokens=settings.max_tokens,
        auto_truncate=settings.auto_truncate,
    )


def _admission(settings: Settings, link: EngineConnection) -> Admission:
    return Admission(
        settings.max_wait,
        lambda: link.rate.latest,
        link.counters,
        timeout=settings.request_timeout,
        reliable_rate=lambda: link.rate.reliable,
    )


def _metrics(admission: Admission, link: EngineConnection, replay: Replay) -> Metrics:
    metrics = Metrics(link.counters)
    metrics.gauge("queued_tokens", "Tokens admitted and not answered.", lambda: admission.queued)
    metrics.gauge(
        "wait_seconds", "Time in which all that is queued is answered.", lambda: admission.backlog
    )
    metrics.gauge("tokens_per_second", "Of a full engine.", lambda: link.rate.latest)
    metrics.gauge("ready", "Whether the engine embeds.", lambda: link.ready)
    metrics.gauge("engine_restarts", "Engines started again.", lambda: link.restarts)
    metrics.counter(
        "replayed_requests", "Computed again as the engine died.", lambda: replay.replayed_jobs
    )
    metrics.counter(
        "quarantined_inputs",
        "Refused as the engine died of them.",
        lambda: replay.quarantined_texts,
    )
    return metrics


def _fastapi(routers: Sequence[APIRouter], lifespan: Any) -> FastAPI:
    app = FastAPI(
        title="embedding-service",
        version=__version__,
        description=_ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # it knows nothing of the gateway that its clients ask
    )
    for router in routers:  # flat, so that errors can tell what there is
        app.router.routes.extend(router.routes)
        app.router.routes.extend(head_routes(router.routes))
    handlers.install(app)
    described = functools.cache(lambda: openapi_document.openapi_document(app))
    app.openapi = described  # type: ignore[method-assign]
    return app


def _lifespan(background: Sequence[Background]) -> Any:
    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        running = [asyncio.create_task(run()) for run in background]
        yield
        for task in reversed(running):  # who came later needs what was there before
            task.cancel()
            await asyncio.wait([task])

    return lifespan
