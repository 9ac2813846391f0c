"""Create the routers of all APIs with the services of the models that each can use."""

from collections.abc import Callable, Sequence
from functools import partial

from fastapi import APIRouter

from embedwell.http.access import ApiKeys
from embedwell.inference.served_model import ServedModel
from embedwell.inherited import InheritedServer
from embedwell.metrics.metrics import Metrics
from embedwell.playground import pages
from embedwell.routes import (
    azure,
    classify,
    cohere,
    embed,
    embed_sparse,
    feature_extraction,
    multi_vector,
    nim,
    ollama,
    ollama_models,
    openai,
    openapi_document,
    positions,
    rerank,
    sagemaker,
    score,
    similarity,
    status,
    tokenize,
    tokens,
    voyage,
    weaviate,
    words,
)
from embedwell.routes import (
    models as model_routes,
)
from embedwell.routes.common.model_registry import ModelRegistry
from embedwell.routes.common.router import direct_routes


def create_routers(
    context: InheritedServer,
    models: Sequence[ServedModel],
    metrics: Metrics,
    shutting_down: Callable[[], bool],
) -> list[APIRouter]:
    """Create the routers of a server, in the order in which errors name their routes.

    shutting_down: returns whether the server was told to stop.
    """
    settings = context.settings
    admin_keys = ApiKeys(settings.admin_keys) if settings.admin_keys else None
    registry = ModelRegistry(models, settings.any_name)
    created = [
        *([pages.router()] if settings.playground else []),  # before the others' route of /
        openapi_document.router(),
        embed.router(registry),
        embed_sparse.router(registry),
        tokens.router(registry),
        positions.router(registry),
        similarity.router(registry),
        words.router(registry),
        multi_vector.router(registry),
        rerank.router(registry),
        score.router(registry),
        nim.router(registry),
        classify.router(registry),
        tokenize.router(registry),
        openai.router(registry),
        model_routes.router(registry, context.started),
        azure.router(registry, context.started),
        cohere.router(registry),
        voyage.router(registry),
        tokenize.cohere_router(registry),
        ollama.router(registry),
        ollama_models.router(registry),
        model_routes.admin_router(registry, admin_keys, settings.request_timeout),
        feature_extraction.router(registry),
        weaviate.router(registry, partial(status.check_ready, models, shutting_down)),
        status.router(models, metrics, shutting_down, registry),
        model_routes.unknown_model_router(registry),
    ]
    return [*created, sagemaker.router(registry, direct_routes(*created))]
