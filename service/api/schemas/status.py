"""Shapes: the answers of the routes that tell how the server does."""

from typing import Any, Literal

from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from service.api.schemas.common import closed


@closed
class Live(TypedDict):
    status: Literal["live"]


@closed
class Ready(TypedDict):
    status: Literal["ready"]
    queued_tokens: NonNegativeInt


@closed
class Dimensions(TypedDict):
    full: NonNegativeInt
    allowed: Literal["any"] | list[NonNegativeInt]


@closed
class Pooled(TypedDict):
    pooling: str


@closed
class ModelType(TypedDict):
    embedding: Pooled


@closed
class Info(TypedDict):
    """engine, model_dtype: null until it has started.

    pooling_source: whether the model's files say how states are pooled, or EMBEDDING_POOLING, or
    nobody, so that what sentence-transformers takes is assumed.

    From model_id on the fields are TEI's. max_concurrent_requests: requests of one text of the
    model's full length that queue and connections take. max_client_batch_size: texts
    of that length that one request takes, 32 at least; shorter ones go in greater number.
    """

    version: str
    model: str
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
