"""Schemas of the responses of health checks and /info."""

from typing import Any, Literal

from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.api.schemas.common import forbid_extra
from embedwell_models.sentence_transformers.classifier import Task


@forbid_extra
class Live(TypedDict):
    status: Literal["live"]


@forbid_extra
class Ready(TypedDict):
    status: Literal["ready"]
    queued_tokens: NonNegativeInt


@forbid_extra
class ModelState(TypedDict):
    model: str
    state: Literal["loaded", "loading", "unloaded"]


@forbid_extra
class Dimensions(TypedDict):
    full: NonNegativeInt
    allowed: Literal["any"] | list[NonNegativeInt]


@forbid_extra
class Pooled(TypedDict):
    pooling: str


@forbid_extra
class Labels(TypedDict):
    id2label: dict[str, str]
    label2id: dict[str, int]


@forbid_extra
class ModelType(TypedDict, total=False):
    """The type of the model: exactly one of the fields is present."""

    embedding: Pooled
    reranker: Labels
    classifier: Labels


@forbid_extra
class Info(TypedDict):
    """Description of the server and its model.

    - `engine`, `model_dtype`: null until the engine has started.
    - `adapter`: the task of a model with adapters.
    - `adapters`: the tasks by which a request can choose an adapter.
    - `outputs`: kinds of vectors of a text: dense, sparse, sparse_query (the sparse vector of a
      query, if it differs), multi (a vector for each token).
    - `modalities`: kinds of inputs.
    - `labels`: labels of a model that reranks or classifies; null for a model that embeds.
    - `pooling_source`: source of the pooling: the model's files (model), EMBEDWELL_POOLING
      (setting), or the default of sentence-transformers (assumed).

    From `model_id` on, the fields are TEI's.

    - `max_concurrent_requests`: how many requests with one text of the maximum length fit into the
      queue and the connection limit.
    - `max_client_batch_size`: how many texts of that length one request can have, at least 32. A
      request can have more texts if they are shorter.
    """

    version: str
    model: str
    task: Task
    adapter: str | None
    adapters: list[str]
    outputs: list[str]
    modalities: list[Literal["text", "image"]]
    labels: list[str] | None
    source: str
    revision: str | None
    engine: dict[str, Any] | None
    engine_restarts: NonNegativeInt
    prompts: dict[str, str]
    default_prompt: str
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
