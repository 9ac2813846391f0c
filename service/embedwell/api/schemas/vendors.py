"""Schemas of the responses of OpenAI's, Infinity's and Cohere's routes."""

from typing import Literal, NotRequired

from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.api.schemas.common import Matrix, Vector, Vectors, forbid_extra
from embedwell.api.schemas.embed import SparseArrays
from embedwell_models.sentence_transformers.classifier import Task


@forbid_extra
class OpenAIEmbedding(TypedDict):
    object: Literal["embedding"]
    index: NonNegativeInt
    embedding: Vector


@forbid_extra
class JinaEmbeddings(TypedDict):
    """Result of one input with `return_multivector`: a vector for each token."""

    object: Literal["embedding"]
    index: NonNegativeInt
    embeddings: Vectors


@forbid_extra
class OutputEmbeddings(TypedDict):
    """Result of one input with `outputs`: the kinds of vectors that were requested."""

    object: Literal["embedding"]
    index: NonNegativeInt
    embedding: NotRequired[Vector]
    sparse_embedding: NotRequired[SparseArrays]
    embeddings: NotRequired[Matrix | str]


@forbid_extra
class OpenAIUsage(TypedDict):
    prompt_tokens: NonNegativeInt
    total_tokens: NonNegativeInt


@forbid_extra
class OpenAIAnswer(TypedDict):
    """Response of /v1/embeddings.

    - `id`: the request's id, as in Mistral's and Infinity's APIs.
    """

    id: str
    object: Literal["list"]
    data: list[OpenAIEmbedding] | list[JinaEmbeddings] | list[OutputEmbeddings]
    model: str
    usage: OpenAIUsage


@forbid_extra
class Model(TypedDict):
    """A served model.

    - `created`: start time of the server, in seconds since 1970.
    - `adapter`: the task of a model with adapters.
    - `dimensions`: dimensions of the vectors; null for a model that reranks or classifies.
    """

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    task: Task
    adapter: str | None
    dimensions: NonNegativeInt | None
    state: Literal["loaded", "loading", "unloaded"]


@forbid_extra
class Models(TypedDict):
    object: Literal["list"]
    data: list[Model]


@forbid_extra
class Stats(TypedDict):
    queued_tokens: NonNegativeInt


@forbid_extra
class InfinityModel(TypedDict):
    """A served model in Infinity's format.

    - `created`: start time of the server, in seconds since 1970.
    """

    id: str
    object: Literal["model"]
    created: int
    stats: Stats
    capabilities: list[Literal["embed", "multi_vector", "rerank", "classify"]]


@forbid_extra
class InfinityModels(TypedDict):
    object: Literal["list"]
    data: list[InfinityModel]


class CohereVectors(TypedDict):
    float: NotRequired[Matrix]
    int8: NotRequired[list[list[int]]]
    uint8: NotRequired[list[list[int]]]
    binary: NotRequired[list[list[int]]]
    ubinary: NotRequired[list[list[int]]]
    base64: NotRequired[list[str]]


@forbid_extra
class CohereVersion(TypedDict):
    version: str


@forbid_extra
class CohereUnits(TypedDict):
    input_tokens: NonNegativeInt


@forbid_extra
class CohereMeta(TypedDict):
    api_version: CohereVersion
    billed_units: CohereUnits
    warnings: NotRequired[list[str]]


@forbid_extra
class CohereFloats(TypedDict):
    """Response of /v1/embed to a request without `embedding_types`."""

    id: str
    embeddings: Matrix
    texts: list[str]
    meta: CohereMeta
    response_type: Literal["embeddings_floats"]


@forbid_extra
class CohereAnswer(TypedDict):
    """Response of /v2/embed, and of /v1/embed with `embedding_types`.

    - `embeddings`: the vectors in each requested type.
    """

    id: str
    embeddings: CohereVectors
    texts: list[str]
    meta: CohereMeta
    response_type: Literal["embeddings_by_type"]
