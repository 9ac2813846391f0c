"""Schemas of the responses of Ollama's routes."""

from typing import Literal

from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.api.schemas.common import Matrix, forbid_extra


@forbid_extra
class OllamaAnswer(TypedDict):
    """Durations in nanoseconds. load_duration: 0, as the model is always loaded."""

    model: str
    embeddings: Matrix
    total_duration: NonNegativeInt
    load_duration: Literal[0]
    prompt_eval_count: NonNegativeInt


@forbid_extra
class OllamaEmbedding(TypedDict):
    embedding: list[float]


@forbid_extra
class Details(TypedDict):
    """quantization_level: the precision of the computation; empty until the engine has started."""

    parent_model: Literal[""]
    format: Literal["safetensors"]
    family: str
    families: list[str]
    parameter_size: str
    quantization_level: str


@forbid_extra
class TaggedModel(TypedDict):
    """size: bytes of the weight files. digest: fingerprint; empty until the engine has started."""

    name: str
    model: str
    modified_at: str
    size: NonNegativeInt
    digest: str
    details: Details
    capabilities: list[Literal["embedding"]]


@forbid_extra
class Tags(TypedDict):
    models: list[TaggedModel]


@forbid_extra
class LoadedModel(TypedDict):
    """size_vram: as size on a GPU, 0 on a CPU. context_length: maximum tokens of a text."""

    name: str
    model: str
    size: NonNegativeInt
    digest: str
    details: Details
    expires_at: str
    size_vram: NonNegativeInt
    context_length: NonNegativeInt


@forbid_extra
class Loaded(TypedDict):
    """Empty until the engine has started."""

    models: list[LoadedModel]


@forbid_extra
class Version(TypedDict):
    version: str


@forbid_extra
class Shown(TypedDict):
    """model_info: under Ollama's keys, some with the architecture before the dot."""

    modelfile: str
    parameters: str
    template: str
    details: Details
    model_info: dict[str, str | int]
    capabilities: list[Literal["embedding"]]
    modified_at: str
