"""Descriptions of the served models for the clients of OpenAI, Cohere, Mistral and Xinference."""

from collections.abc import Iterator
from typing import Literal

from pydantic import NonNegativeInt, PositiveInt
from typing_extensions import TypedDict

from embedwell.http.error_body import forbid_extra
from embedwell.inference.served_model import ServedModel
from embedwell.routes.common.model_registry import ModelRegistry
from embedwell.routes.common.scores import rerank_score
from embedwell_models.model_files.classifier import Task
from embedwell_models.outputs.names import DENSE, MULTI

Endpoint = Literal["embed", "rerank", "classify"]
"""Cohere's name of an API that a model answers."""

_MODEL_TYPES: dict[Task, Literal["embedding", "rerank", "classify"]] = {
    "embed": "embedding",
    "multi_vector": "embedding",
    "rerank": "rerank",
    "classify": "classify",
}


@forbid_extra
class MistralCapabilities(TypedDict):
    completion_chat: Literal[False]
    completion_fim: Literal[False]
    function_calling: Literal[False]
    fine_tuning: Literal[False]
    vision: Literal[False]
    classification: bool


@forbid_extra
class Model(TypedDict):
    """A served model.

    - `created`: start time of the server, in seconds since 1970.
    - `adapter`: the task of a model with adapters.
    - `dimensions`: dimensions of the vectors; null for a model that reranks or classifies.
    - `name`, `endpoints`, `context_length`: for Cohere's clients.
    - `type`, `capabilities`, `max_context_length`: for Mistral's clients.
    - `model_type`: for Xinference's clients.
    """

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    task: Task
    adapter: str | None
    dimensions: NonNegativeInt | None
    state: Literal["loaded", "loading", "unloaded"]
    name: str
    endpoints: list[Endpoint]
    context_length: PositiveInt
    type: Literal["base"]
    capabilities: MistralCapabilities
    max_context_length: PositiveInt
    model_type: Literal["embedding", "rerank", "classify"]


@forbid_extra
class CohereModel(TypedDict):
    """A served model in Cohere's format."""

    name: str
    endpoints: list[Endpoint]
    finetuned: Literal[False]
    context_length: PositiveInt
    default_endpoints: list[Endpoint]


@forbid_extra
class Models(TypedDict):
    """The served models under all of their names.

    - `models`: the same for Cohere's clients.
    """

    object: Literal["list"]
    data: list[Model]
    models: list[CohereModel]


def model_list(registry: ModelRegistry, created: int, endpoint: str | None = None) -> Models:
    """List the served models under all of their names.

    created: creation time of all models, in seconds since 1970.
    endpoint: list only the models of an endpoint for Cohere's clients.
    """
    data = [model_card(name, model, created) for name, model in named(registry)]
    chosen = [card for card in data if endpoint is None or endpoint in card["endpoints"]]
    return {"object": "list", "data": data, "models": [_cohere(card) for card in chosen]}


def named(registry: ModelRegistry) -> Iterator[tuple[str, ServedModel]]:
    """Yield each name with its model."""
    return ((name, model) for model in registry.models for name in model.settings.names)


def model_card(name: str, model: ServedModel, created: int) -> Model:
    """Describe a model under one of its names."""
    length = model.reader.max_length
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "self-hosted",
        "task": model.task,
        "adapter": model.adapter,
        "dimensions": model.dimensions.full if model.description.outputs else None,
        "state": model.state,
        "name": name,
        "endpoints": _endpoints(model),
        "context_length": length,
        "type": "base",
        "capabilities": {
            "completion_chat": False,
            "completion_fim": False,
            "function_calling": False,
            "fine_tuning": False,
            "vision": False,
            "classification": model.task == "classify",
        },
        "max_context_length": length,
        "model_type": _MODEL_TYPES[model.task],
    }


def _endpoints(model: ServedModel) -> list[Endpoint]:
    description = model.description
    endpoints: list[Endpoint] = []
    if {DENSE, MULTI} & {*description.outputs}:
        endpoints.append("embed")
    if rerank_score(description.outputs, description.classifier) is not None:
        endpoints.append("rerank")
    return endpoints if description.classifier is None else [*endpoints, "classify"]


def _cohere(card: Model) -> CohereModel:
    return {
        "name": card["name"],
        "endpoints": card["endpoints"],
        "finetuned": False,
        "context_length": card["context_length"],
        "default_endpoints": [],
    }
