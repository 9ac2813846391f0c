"""Create the routers of all APIs with the services of the models that each can use."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from fastapi import APIRouter

from embedwell.api import (
    classify,
    cohere,
    cohere_v1,
    embed,
    embed_sparse,
    feature_extraction,
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
from embedwell.api.dense_vector_service import DenseVectorService
from embedwell.api.info import server_info
from embedwell.api.model_choice import ModelChoice
from embedwell.api.served_names import ServedNames
from embedwell.api.served_tasks import ServedTasks
from embedwell.context import ServerContext
from embedwell.http.headers import Headers
from embedwell.http.keys import ApiKeys
from embedwell.inference.served_model import ServedModel
from embedwell.metrics.metrics import Metrics
from embedwell.playground import pages
from embedwell.settings.settings import Settings
from embedwell_models.outputs.names import DENSE, MULTI, SPARSE

S = TypeVar("S")


def create_routers(
    context: ServerContext,
    models: Sequence[ServedModel],
    metrics: Metrics,
    shutting_down: Callable[[], bool],
) -> list[APIRouter]:
    """Create the routers of a server, in the order in which errors name their routes.

    shutting_down: returns whether the server was told to stop.
    """
    settings, max_values = context.settings, context.settings.max_values
    names = ServedNames(*[m.settings.names for m in models], any_name=settings.any_name)
    tasks = ServedTasks([(m.name, m.adapter) for m in models])

    def choice(service: Callable[[ServedModel], S], *offers: str) -> ModelChoice[S]:
        # Requests without a model's name use the first model that supports this, else the first.
        default = next(
            (i for offer in offers for i, m in enumerate(models) if offer in m.task_and_outputs), 0
        )
        return ModelChoice(names, [service(model) for model in models], default, tasks)

    def multi_vectors_of(model: ServedModel) -> multi_vector.MultiVectorService:
        return multi_vector.MultiVectorService(model.multi_vectors, model.name, max_values)

    embeddings = choice(
        lambda m: DenseVectorService(
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
    created = [
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
        status.router(models, metrics, shutting_down, choice(partial(_info, tasks))),
    ]
    return [*created, pages.router()] if settings.playground else created


def _info(tasks: ServedTasks, model: ServedModel) -> Callable[[], dict[str, Any]]:
    return partial(
        server_info,
        *(model.settings, model.engine, model.folder, model.dimensions, tasks.of(model.index)),
    )


def _admin_check(settings: Settings) -> Callable[[Headers], None] | None:
    return ApiKeys(settings.admin_keys).check if settings.admin_keys else None
