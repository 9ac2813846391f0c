"""GET /info: description of the server and its model."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal, NotRequired

from fastapi import APIRouter, Query
from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell import __version__
from embedwell.compute.engine_set import EngineHandle, EngineSet
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.openapi_responses import AUTH_ERRORS, route_responses
from embedwell.routes.common.router import api_router
from embedwell.routes.common.scores import RerankScore, rerank_score
from embedwell.routes.common.server_state import ServerState
from embedwell.settings.settings import Settings
from embedwell_models.config.model_options import UnicodeForm
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.hub.sources import DEFAULT
from embedwell_models.model_files.classifier import ClassifierOptions
from embedwell_models.model_files.vector_recipe import VectorRecipe
from embedwell_models.outputs.names import Task
from embedwell_models.vectors import INT8, AllowedDimensions

_MODEL = Query(description="Name of a served model. Default: the first one.", examples=[DEFAULT])
_LIMIT_SETTINGS = (
    "max_body_bytes",
    "max_buffered_bytes",
    "max_connections",
    "receive_timeout",
    "max_texts",
    "max_tokens",
    "max_image_pixels",
    "max_values",
    "max_wait",
    "max_wait_large",
    "request_timeout",
)
_TEI_CLIENT_BATCH = 32  # TEI's default limit of texts in a request
_TEI_POOLING_NAMES = {"lasttoken": "last_token"}  # names of sentence-transformers


@forbid_extra
class Dimensions(TypedDict):
    """Dimensions of the model's vectors.

    - `full`: number of dimensions of a whole vector.
    - `allowed`: values that the field `dimensions` of a request may have: `any` up to `full`, or
      those of the list.
    """

    full: NonNegativeInt
    allowed: Literal["any"] | list[NonNegativeInt]


@forbid_extra
class Pooled(TypedDict):
    """Method that pools the vectors of tokens.

    - `pooling`: the method, in TEI's name.
    """

    pooling: str


@forbid_extra
class Labels(TypedDict):
    """Names and numbers of the labels.

    - `id2label`: name of each label by its number as a text.
    - `label2id`: number of each label by its name.
    """

    id2label: dict[str, str]
    label2id: dict[str, int]


@forbid_extra
class ModelType(TypedDict, total=False):
    """The type of the model: exactly one of the fields is present.

    - `embedding`: the model computes vectors.
    - `reranker`: the model ranks documents.
    - `classifier`: the model labels texts.
    """

    embedding: Pooled
    reranker: Labels
    classifier: Labels


@forbid_extra
class StoredWeights(TypedDict):
    """Weights as the files hold them: their format, and parameters by type, such as Q8_0.

    - `format`: format of the weight files.
    - `parameters`: number of parameters by their type in the files.
    """

    format: Literal["safetensors", "GGUF", "ONNX"]
    parameters: dict[str, int]


@forbid_extra
class EngineStatus(TypedDict):
    """The engine of one of several devices.

    - `device`: name of the device, such as cuda:0.
    - `ready`: whether it computes.
    - `restarts`: how often the engine was replaced since the server started.
    """

    device: str
    ready: bool
    restarts: NonNegativeInt


@forbid_extra
class Info(TypedDict):
    """Description of the server and its model.

    - `engine`, `model_dtype`: null until the engine has started. `engine.torch` says what PyTorch
      computes of the model; null if the compiled kernels compute all of it.
    - `engines`: the engines, if the model is on several devices; `engine` describes the first.
    - `weights`: the format of the files, and the number of parameters of each type in them; the
      model is computed in `model_dtype`, whatever these are.
    - `adapter`: the task of a model with adapters.
    - `adapters`: the tasks by which a request can choose an adapter.
    - `outputs`: kinds of vectors of a text: dense, sparse, sparse_query (the sparse vector of a
      query, if it differs), multi (a vector for each token).
    - `modalities`: kinds of inputs.
    - `labels`: labels of a model that reranks or classifies; null for a model that embeds.
    - `rerank_score`: score of a document in /rerank: sigmoid (of a reranker's logit), maxsim (of a
      multi-vector model) or cosine (of a dense model); null for a model that cannot rank documents.
    - `pooling_source`: source of the pooling: the model's files (model), EMBEDWELL_POOLING
      (setting), or the default of sentence-transformers (assumed).
    - `max_concurrent_requests`: how many requests with one text of the maximum length fit into the
      queue and the connection limit.
    - `max_client_batch_size`: how many texts of that length one request can have, at least 32. A
      request can have more texts if they are shorter.
    - `version`: version of embedwell.
    - `model`: primary name of the model, as responses have it.
    - `task`: what the model is for: `embed`, `multi_vector`, `rerank`, `classify` or
      `decide`.
    - `source`: where the model comes from: a folder, a bundled name, or organisation/name on a hub.
    - `revision`: commit, tag or branch of a model on a hub; null for the newest.
    - `engine_restarts`: how often the engine was replaced since the server started.
    - `prompts`: text of each of the model's prompts by its name, for `prompt_name`.
    - `default_prompt`: prompt of a request that selects none; "" for none.
    - `unicode_normalization`: normalisation of texts before tokenization: `none`, or `nfc`, which
      composes letters and their marks.
    - `pooling`: how the vectors of tokens become one: names of the methods, whose vectors are
      joined.
    - `auto_truncate`: whether a text that is too long is cut off unless the request says otherwise.
    - `vector_cache_bytes`: memory of the cache of vectors, in bytes; 0 if it is off.
    - `dimensions`: number of dimensions of vectors, and those that a request may ask for.
    - `int8`: how numbers are converted to `int8` and `uint8`.
    - `limits`: the server's limits by the names of their settings; times are in seconds.
    - `model_id`: same as `source`.
    - `model_sha`: same as `revision`.
    - `model_type`: what the model computes.
    - `served_model_name`: same as `model`.
    - `max_input_length`: maximum tokens of a text.
    - `max_batch_tokens`: maximum tokens that are computed at once.
    - `max_batch_requests`: always null, as batches have no other limit.
    - `tokenization_workers`: number of HTTP processes, each of which tokenizes.

    From `model_id` on, the fields are TEI's.
    """

    version: str
    model: str
    task: Task
    weights: StoredWeights
    adapter: str | None
    adapters: list[str]
    outputs: list[str]
    modalities: list[Literal["text", "image"]]
    labels: list[str] | None
    rerank_score: RerankScore | None
    source: str
    revision: str | None
    engine: dict[str, Any] | None
    engine_restarts: NonNegativeInt
    engines: NotRequired[list[EngineStatus]]
    prompts: dict[str, str]
    default_prompt: str
    unicode_normalization: UnicodeForm
    pooling: list[str]
    pooling_source: Literal["model", "setting", "assumed"]
    auto_truncate: bool
    vector_cache_bytes: int
    dimensions: Dimensions
    int8: str
    limits: dict[str, int | float]
    model_id: str
    model_sha: str | None
    model_dtype: str | None
    model_type: ModelType
    served_model_name: str
    max_concurrent_requests: int
    max_input_length: int
    max_batch_tokens: int
    max_batch_requests: None
    max_client_batch_size: int
    tokenization_workers: int


def router(server: ServerState) -> APIRouter:
    """Create the route /info."""
    routes, models = api_router("status", ()), server.choice(lambda model: model)

    @routes.get(
        "/info",
        summary="Describe the model, its precision, and the limits",
        responses=route_responses((*AUTH_ERRORS, 404)),
    )
    async def info(model: Annotated[str | None, _MODEL] = None) -> Info:
        chosen = models.choose(model)
        parts = chosen.settings, chosen.engine, chosen.description, chosen.dimensions
        return server_info(*parts, server.tasks_of(chosen))

    return routes


def server_info(
    settings: Settings,
    engine: EngineHandle,
    model: ModelDescription,
    dimensions: AllowedDimensions,
    adapters: Sequence[str] = (),
) -> Info:
    """Describe the server; fields that only the engine knows are None until it has started.

    adapters: the adapters that a request can choose by its task.
    """
    recipe, classifier, description = model.recipe, model.classifier, engine.description
    length = recipe.max_length
    # TEI's clients send as many texts at once as this allows, however long they are.
    client_batch = max(_TEI_CLIENT_BATCH, settings.max_tokens // length)
    batch_tokens = description.max_batch_tokens if description else settings.max_batch_tokens
    info: Info = {
        "version": __version__,
        "model": settings.name,
        "task": model.task,
        "weights": {"format": model.weights_format, "parameters": {**model.stored_numbers}},
        "adapter": model.spec.adapter,
        "adapters": [*adapters],
        "outputs": list(model.outputs),
        "modalities": ["text", "image"] if model.reads_images else ["text"],
        "labels": list(classifier.labels) if classifier else None,
        "rerank_score": rerank_score(model.outputs, classifier),
        "source": settings.model,
        "revision": settings.revision,
        "engine": None if description is None else asdict(description),
        "engine_restarts": engine.restarts,
        "prompts": recipe.prompts,
        "default_prompt": recipe.default_prompt,
        "unicode_normalization": settings.unicode_normalization,
        "pooling": list(recipe.pooling),
        "pooling_source": recipe.pooling_source,
        "auto_truncate": settings.auto_truncate,
        "vector_cache_bytes": settings.vector_cache_bytes,
        "dimensions": {"full": dimensions.full, "allowed": dimensions.allowed},
        "int8": INT8,
        "limits": {name: getattr(settings, name) for name in _LIMIT_SETTINGS},
        "model_id": settings.model,
        "model_sha": settings.revision,
        "model_dtype": None if description is None else description.dtype,
        "model_type": _tei_model_type(recipe, classifier),
        "served_model_name": settings.name,
        "max_concurrent_requests": _concurrent_requests(settings, engine, length),
        "max_input_length": length,
        "max_batch_tokens": max(batch_tokens, length),  # a longer text gets a batch of its own
        "max_batch_requests": None,
        "max_client_batch_size": min(settings.max_texts, client_batch),
        "tokenization_workers": settings.workers,
    }
    if isinstance(engine, EngineSet):
        info["engines"] = [
            {"device": device, "ready": each.ready, "restarts": each.restarts}
            for device, each in engine.engines.items()
        ]
    return info


def _concurrent_requests(settings: Settings, engine: EngineHandle, length: int) -> int:
    """Return how many requests with a text of the maximum length fit into queue and connections."""
    connections = settings.max_connections * settings.workers
    queued_texts = settings.max_wait * engine.rate.latest / length
    return min(connections, max(1, int(queued_texts)))


def _tei_model_type(recipe: VectorRecipe, classifier: ClassifierOptions | None) -> ModelType:
    if classifier is None:
        pooling = "+".join(_TEI_POOLING_NAMES.get(name, name) for name in recipe.pooling)
        return {"embedding": {"pooling": pooling}}
    labels: Labels = {
        "id2label": {str(index): name for index, name in enumerate(classifier.labels)},
        "label2id": {name: index for index, name in enumerate(classifier.labels)},
    }
    return {"reranker": labels} if classifier.reranks else {"classifier": labels}
