"""The composition root: builds the application of an HTTP process from its parts."""

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
from models.tokenizer.formatted_pairs import pair_encoder
from service import __version__
from service.api import (
    classify,
    cohere,
    cohere_v1,
    embed,
    embed_sparse,
    feature_extraction,
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
)
from service.api.info import server_info
from service.api.router import direct_routes, head_routes
from service.api.served_names import ServedNames
from service.context import ServerContext
from service.engine.client.engine_connection import EngineConnection
from service.engine.client.replay import Replay
from service.http import handlers
from service.http.browser_checks import BrowserChecks
from service.http.keys import ApiKeys
from service.http.middleware import Middleware
from service.http.request_body import HttpLimits
from service.http.timeouts import Timeouts
from service.inference.dimensions import Dimensions
from service.inference.multi_vectors import MultiVectors
from service.inference.pipeline import Pipeline
from service.inference.vector_cache import VectorCache
from service.inputs.image_reader import ImageReader
from service.inputs.reader import InputReader
from service.inputs.tokenization_queue import TokenizationQueue
from service.metrics import Metrics
from service.playground import pages
from service.request.admission import Admission
from service.request.limits import MAX_UNSPLIT_CHARACTERS
from service.request.memory_budget import MemoryBudget
from service.settings import Settings

log = logging.getLogger(__name__)

_DESCRIPTION = "Vectors of sentences, tokens and positions, and the cosine between them."


Background = Callable[[], Coroutine[Any, Any, None]]


def create_app(
    context: ServerContext,
    connection: EngineConnection,
    background: Sequence[Background] = (),
    shutting_down: Callable[[], bool] = lambda: False,
) -> Middleware:
    """Build the application of one of a server's HTTP processes.

    background: work that runs as long as the application, and is cancelled in reverse order.
    shutting_down: whether the server was told to stop.
    """
    settings = context.settings
    model = Folder.read(context.model, settings.pooling, settings.rerank_format, settings.adapter)
    config = model.spec.config
    reader = _reader(settings, model)
    admission = _admission(settings, connection)
    replay = Replay(connection, connection.counters)
    metrics = _metrics(admission, connection, replay)
    cache_bytes = settings.vector_cache_bytes
    engine = VectorCache(replay, cache_bytes) if cache_bytes else replay
    pipeline = Pipeline(
        reader,
        admission,
        engine,
        settings.request_timeout,
        classifier=model.classifier,
        output_names=model.outputs,
    )
    names, max_values = ServedNames(settings.names, settings.any_name), settings.max_values
    lengths = declared(model.encoder, model.dim)
    dimensions = Dimensions.from_setting(settings.dimensions, model.dim, lengths)
    multi_vectors = MultiVectors(pipeline, model.multi_vector_tokens(reader.tokenizer), model.dim)
    token_embeddings = multi_vector.MultiVectorService(multi_vectors, names, max_values)
    embeddings = embed.EmbeddingService(
        pipeline, names, dimensions, config.num_layers, max_values, token_embeddings
    )
    token_vectors = tokens.TokenVectorService(pipeline, config, max_values)
    reranking = rerank.RerankService(pipeline, names, multi_vectors)
    info = functools.partial(server_info, settings, connection, model, dimensions)
    routers = [
        openapi_document.router(),
        embed.router(embeddings),
        embed_sparse.router(embed_sparse.SparseService(pipeline, max_values)),
        tokens.router(token_vectors),
        positions.router(
            positions.PositionService(pipeline, config, model.bias_table(), max_values)
        ),
        similarity.router(pipeline, max_values, multi_vectors),
        multi_vector.router(token_embeddings),
        rerank.router(reranking),
        rerank_vendors.router(reranking),
        classify.router(pipeline, names),
        tokenize.router(reader, settings.max_texts, settings.max_tokens),
        openai.router(
            embeddings, token_vectors, model.task, context.started, lambda: admission.queued
        ),
        cohere.router(embeddings),
        cohere_v1.router(embeddings),
        ollama.router(embeddings),
        ollama_models.router(ollama_models.OllamaModels(names, model, connection)),
        feature_extraction.router(embeddings),
        status.router(connection, admission, metrics, shutting_down, info),
    ]
    if settings.playground:
        routers.append(pages.router())
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
    tokenizer = model.tokenizer(MAX_UNSPLIT_CHARACTERS)
    return InputReader(
        tokenizer,
        model.sentence,
        TokenizationQueue(settings.request_timeout, settings.max_wait),
        vocabulary_rows=model.spec.config.vocab_size,
        min_tokens=model.spec.config.min_tokens,
        max_texts=settings.max_texts,
        max_tokens=settings.max_tokens,
        auto_truncate=settings.auto_truncate,
        images=ImageReader(
            TokenizationQueue(settings.request_timeout, settings.max_wait),
            model.images,
            model.preprocessing,
            max_pixels=settings.max_image_pixels,
            max_texts=settings.max_texts,
            max_tokens=settings.max_tokens,
        ),
        pairs=pair_encoder(tokenizer, model.spec.config, model.pair_format)
        if model.classifier
        else None,
    )


def _admission(settings: Settings, connection: EngineConnection) -> Admission:
    return Admission(
        settings.max_wait,
        lambda: connection.rate.latest,
        connection.counters,
        timeout=settings.request_timeout,
        reliable_rate=lambda: connection.rate.reliable_rate,
    )


def _metrics(admission: Admission, connection: EngineConnection, replay: Replay) -> Metrics:
    metrics = Metrics(connection.counters)
    metrics.gauge("queued_tokens", "Tokens admitted and not answered.", lambda: admission.queued)
    metrics.gauge(
        "wait_seconds", "Time in which all that is queued is answered.", lambda: admission.backlog
    )
    metrics.gauge("tokens_per_second", "Of a full engine.", lambda: connection.rate.latest)
    metrics.gauge("ready", "Whether the engine embeds.", lambda: connection.ready)
    metrics.gauge("engine_restarts", "Engines started again.", lambda: connection.restarts)
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
