"""GET /api/tags, /api/ps and /api/version, POST /api/show and /api/pull: Ollama's models."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell import __version__
from embedwell.compute.served_model import ServedModel
from embedwell.errors import BadRequest
from embedwell.http.error_responses import OLLAMA
from embedwell.routes.common.body import Body, examples
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.openapi_responses import AUTH_ERRORS, BODY_ERRORS, route_responses
from embedwell.routes.common.router import RequestDep, api_router
from embedwell.routes.common.server_state import ModelRegistry, tagged
from embedwell_models.checkpoint import safetensors_files

_NEVER = "9999-12-31T23:59:59Z"
_FORMATS: Mapping[str, Literal["safetensors", "gguf", "onnx"]] = {
    "safetensors": "safetensors",
    "GGUF": "gguf",
    "ONNX": "onnx",
}
_QUANTIZATION_LEVELS = {
    "float32": "F32",
    "bfloat16": "BF16",
    "float16": "F16",
    "int8": "I8",
    "int4": "I4",
}


class OllamaNameBody(Body):
    """The name of a model: `model`, or `name` from older clients.

    - `model`: name of a served model, with or without the tag `latest`.
    - `name`: another name of `model`, from older clients.
    """

    model_config = examples({"model": "all-MiniLM-L6-v2"}, {"name": "all-MiniLM-L6-v2"})

    model: str | None = None
    name: str | None = None

    @property
    def checked_name(self) -> str:
        """Return the name; raises BadRequest if it is missing."""
        if name := self.model or self.name:
            return name
        raise BadRequest("the field model is missing: give a model's name", param="model")


class OllamaShowRequest(OllamaNameBody):
    """Request body of /api/show.

    - `verbose`, `system`, `template`, `options`: sent by Ollama's clients; ignored.
    """

    verbose: bool | None = None
    system: str | None = None
    template: str | None = None
    options: dict[str, Any] | None = None


class OllamaPullRequest(OllamaNameBody):
    """Request body of /api/pull.

    - `insecure`, `stream`, `username`, `password`: sent by Ollama's clients; ignored.
    """

    insecure: bool | None = None
    stream: bool | None = None
    username: str | None = None
    password: str | None = None


@forbid_extra
class Pulled(TypedDict):
    """Response of /api/pull, and the only line of one that is streamed.

    - `status`: always `success`: the model is served, and nothing was fetched.
    """

    status: Literal["success"]


@forbid_extra
class Details(TypedDict):
    """Details of a model.

    - `quantization_level`: the precision of the computation; empty until the engine has started.
    - `parent_model`: always empty.
    - `format`: format of the weight files.
    - `family`: architecture of the model, such as bert.
    - `families`: the architecture in a list.
    - `parameter_size`: number of parameters, such as 22.7M.
    """

    parent_model: Literal[""]
    format: Literal["safetensors", "gguf", "onnx"]
    family: str
    families: list[str]
    parameter_size: str
    quantization_level: str


@forbid_extra
class TaggedModel(TypedDict):
    """A served model.

    - `name`, `model`: name of the model with its tag, such as all-MiniLM-L6-v2:latest.
    - `modified_at`: time at which the model's files were written, in UTC.
    - `size`: size of the weight files in bytes.
    - `digest`: fingerprint of the model; empty until the engine has started.
    - `details`: format, architecture and precision of the model.
    - `capabilities`: `embedding`, or nothing for a model that reranks or classifies.
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
    """The served models.

    - `models`: a model for each name, with its tag.
    """

    models: list[TaggedModel]


@forbid_extra
class LoadedModel(TypedDict):
    """A loaded model.

    - `name`, `model`: name of the model with its tag, such as all-MiniLM-L6-v2:latest.
    - `size`: size of the weight files in bytes.
    - `digest`: fingerprint of the model; empty until the engine has started.
    - `details`: format, architecture and precision of the model.
    - `expires_at`: time at which the model is unloaded: the year 9999, as the server's settings
      decide.
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
    """The loaded models; empty until the engine has started.

    - `models`: a model for each engine that is loaded.
    """

    models: list[LoadedModel]


@forbid_extra
class Version(TypedDict):
    """Version of the server.

    - `version`: version of embedwell, not of Ollama.
    """

    version: str


@forbid_extra
class Shown(TypedDict):
    """Description of a model.

    - `model_info`: values under Ollama's keys, some of which begin with the architecture and a dot.
    - `modelfile`, `parameters`, `template`: always empty.
    - `details`: format, architecture and precision of the model.
    - `capabilities`: `embedding`, or nothing for a model that reranks or classifies.
    - `modified_at`: time at which the model's files were written, in UTC.
    """

    modelfile: str
    parameters: str
    template: str
    details: Details
    model_info: dict[str, str | int]
    capabilities: list[Literal["embedding"]]
    modified_at: str


class OllamaModel:
    """Describes a served model in Ollama's format."""

    def __init__(self, model: ServedModel) -> None:
        self._model, self._description, self._engine = model, model.description, model.engine
        self._capabilities: list[Literal["embedding"]] = (
            ["embedding"] if model.task == "embed" else []
        )

    def tags(self) -> list[TaggedModel]:
        """Describe the model under each of its names."""
        return [self._describe(tagged(name)) for name in self._model.settings.names]

    def loaded(self) -> list[LoadedModel]:
        """Describe the model under its primary name, if an engine has loaded it."""
        engine = self._engine.description
        if engine is None or self._model.state != "loaded":
            return []
        model = self._describe(tagged(self._model.name))
        return [
            {
                "name": model["name"],
                "model": model["model"],
                "size": model["size"],
                "digest": model["digest"],
                "details": model["details"],
                "expires_at": _NEVER,
                "size_vram": self._size if engine.device.startswith("cuda") else 0,
                "context_length": self._description.recipe.max_length,
            }
        ]

    def show(self) -> Shown:
        """Describe the model in detail."""
        config = self._description.spec.config
        return {
            "modelfile": "",
            "parameters": "",
            "template": "",
            "details": self._details(),
            "model_info": {
                "general.architecture": config.family,
                "general.parameter_count": self._description.parameters,
                f"{config.family}.context_length": self._description.recipe.max_length,
                f"{config.family}.embedding_length": self._description.dim,
                f"{config.family}.block_count": config.num_layers,
            },
            "capabilities": self._capabilities,
            "modified_at": self._modified,
        }

    def _describe(self, name: str) -> TaggedModel:
        engine = self._engine.description
        return {
            "name": name,
            "model": name,
            "modified_at": self._modified,
            "size": self._size,
            "digest": "" if engine is None else engine.fingerprint,
            "details": self._details(),
            "capabilities": self._capabilities,
        }

    def _details(self) -> Details:
        engine, family = self._engine.description, self._description.spec.config.family
        return {
            "parent_model": "",
            "format": _FORMATS[self._description.weights_format],
            "family": family,
            "families": [family],
            "parameter_size": _format_count(self._description.parameters),
            "quantization_level": "" if engine is None else _QUANTIZATION_LEVELS[engine.dtype],
        }

    @cached_property
    def _file_stats(self) -> list[os.stat_result]:
        folders = self._description.checkpoints()
        return [
            file.stat() for folder in folders for file in safetensors_files.all_weight_files(folder)
        ]

    @property
    def _size(self) -> int:
        """Return the bytes of the weight files."""
        return sum(stat.st_size for stat in self._file_stats)

    @property
    def _modified(self) -> str:
        latest = max(stat.st_mtime for stat in self._file_stats)
        return datetime.fromtimestamp(latest, UTC).isoformat()


def router(registry: ModelRegistry) -> APIRouter:
    """Create the routes that describe models as Ollama does."""
    models = registry.choice(OllamaModel)
    routes, responses = api_router("Ollama", (), OLLAMA), route_responses(AUTH_ERRORS)

    @routes.get("/api/tags", summary="List the served models (Ollama)", responses=responses)
    async def ollama_tags() -> Tags:
        return {"models": [tag for model in models.services for tag in model.tags()]}

    @routes.get("/api/ps", summary="List the loaded models (Ollama)", responses=responses)
    async def ollama_ps() -> Loaded:
        return {"models": [each for model in models.services for each in model.loaded()]}

    @routes.get("/api/version", summary="Get the server's version (Ollama)", responses=responses)
    async def ollama_version() -> Version:
        return {"version": __version__}

    @routes.post(
        "/api/show",
        summary="Describe a model (Ollama)",
        responses=route_responses((*BODY_ERRORS, 404)),
    )
    async def show(context: RequestDep, body: OllamaShowRequest) -> Shown:
        return models.choose_tagged(body.checked_name).show()

    @routes.post(
        "/api/pull",
        summary="Check that a model is served (Ollama)",
        responses=route_responses((*BODY_ERRORS, 404)),
    )
    async def pull(context: RequestDep, body: OllamaPullRequest) -> Pulled:
        models.choose_tagged(body.checked_name)
        return {"status": "success"}

    return routes


def _format_count(count: int) -> str:
    """Format a number of parameters as Ollama does: 22.7M."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)
