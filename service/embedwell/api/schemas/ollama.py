"""Schemas of the responses of Ollama's routes."""

from typing import Literal

from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.api.schemas.common import Matrix, forbid_extra


@forbid_extra
class OllamaAnswer(TypedDict):
    """Response of /api/embed. Durations are in nanoseconds.

    - `load_duration`: always 0, as the model is loaded before the request is computed.
    """

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
    """Details of a model.

    - `quantization_level`: the precision of the computation; empty until the engine has started.
    """

    parent_model: Literal[""]
    format: Literal["safetensors"]
    family: str
    families: list[str]
    parameter_size: str
    quantization_level: str


@forbid_extra
class TaggedModel(TypedDict):
    """A served model.

    - `size`: bytes of the weight files.
    - `digest`: fingerprint of the model; empty until the engine has started.
    """

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
    """A loaded model.

    - `size_vram`: equals `size` on a GPU, 0 on a CPU.
    - `context_length`: maximum tokens of a text.
    """

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
    """The loaded models; empty until the engine has started."""

    models: list[LoadedModel]


@forbid_extra
class Version(TypedDict):
    version: str


@forbid_extra
class Shown(TypedDict):
    """Description of a model.

    - `model_info`: values under Ollama's keys, some of which begin with the architecture and a dot.
    """

    modelfile: str
    parameters: str
    template: str
    details: Details
    model_info: dict[str, str | int]
    capabilities: list[Literal["embedding"]]
    modified_at: str
