"""Shapes: the answers of Ollama's routes."""

from typing import Literal

from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from service.api.schemas.common import Matrix, closed


@closed
class OllamaAnswer(TypedDict):
    """Durations are nanoseconds; the model is always loaded."""

    model: str
    embeddings: Matrix
    total_duration: NonNegativeInt
    load_duration: Literal[0]
    prompt_eval_count: NonNegativeInt


@closed
class OllamaEmbedding(TypedDict):
    embedding: list[float]


@closed
class Details(TypedDict):
    """quantization_level: the precision that is computed in; empty until the engine has started."""

    parent_model: Literal[""]
    format: Literal["safetensors"]
    family: str
    families: list[str]
    parameter_size: str
    quantization_level: str


@closed
class TaggedModel(TypedDict):
    """size: bytes of the weights' files. digest: the fingerprint; empty until it is known."""

    name: str
    model: str
    modified_at: str
    size: NonNegativeInt
    digest: str
    details: Details
    capabilities: list[Literal["embedding"]]


@closed
class Tags(TypedDict):
    models: list[TaggedModel]


@closed
class LoadedModel(TypedDict):
    """size_vram: all of it on a GPU, 0 on a CPU. context_length: tokens that the model reads."""

    name: str
    model: str
    size: NonNegativeInt
    digest: str
    details: Details
    expires_at: str
    size_vram: NonNegativeInt
    context_length: NonNegativeInt


@closed
class Loaded(TypedDict):
    """Empty until the engine has started."""

    models: list[LoadedModel]


@closed
class Version(TypedDict):
    version: str


@closed
class Shown(TypedDict):
    """model_info: by Ollama's names, in which the architecture's stands before the dot."""

    modelfile: str
    parameters: str
    template: str
    details: Details
    model_info: dict[str, str | int]
    capabilities: list[Literal["embedding"]]
    modified_at: str
