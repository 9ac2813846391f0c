"""GET /api/tags, /api/ps and /api/version, POST /api/show: what Ollama's clients ask first."""

from datetime import UTC, datetime
from functools import cached_property
from math import prod
from typing import Any

from fastapi import APIRouter

from models.checkpoint import safetensors_files
from models.folder import Folder
from service import __version__
from service.api.body import Body, example
from service.api.openapi_responses import BODY, PLAIN, documented
from service.api.router import Context, api_router
from service.api.schemas.ollama import Loaded, Shown, Tags, Version
from service.api.served_names import ServedNames, tagged
from service.engine.host.engine_connection import EngineConnection
from service.errors import BadRequest

_NEVER = "9999-12-31T23:59:59Z"
_FLOATS = {"F64", "F32", "F16", "BF16"}
_LEVELS = {"float32": "F32", "bfloat16": "BF16", "float16": "F16", "int8": "I8"}


class OllamaShowRequest(Body):
    """model, or name as older clients call it; the other fields change nothing."""

    model_config = example({"name": "all-MiniLM-L6-v2"}, model="all-MiniLM-L6-v2")

    model: str | None = None
    name: str | None = None
    verbose: bool | None = None
    system: str | None = None
    template: str | None = None
    options: dict[str, Any] | None = None


class OllamaModels:
    """The served model in the words in which Ollama tells of its models."""

    def __init__(self, names: ServedNames, folder: Folder, link: EngineConnection) -> None:
        self._names, self._folder, self._link = names, folder, link

    def tags(self) -> dict[str, Any]:
        """The model under each of its names."""
        return {"models": [self._card(tagged(name)) for name in self._names.listed]}

    def loaded(self) -> dict[str, Any]:
        """The model under its first name, once the engine has it."""
        engine = self._link.description
        if engine is None:
            return {"models": []}
        card = self._card(tagged(self._names.first))
        return {
            "models": [
                {
                    **{name: card[name] for name in ("name", "model", "size", "digest", "details")},
                    "expires_at": _NEVER,
                    "size_vram": self._size if engine.device.startswith("cuda") else 0,
                    "context_length": self._folder.sentence.max_length,
                }
            ]
        }

    def show(self, body: OllamaShowRequest) -> dict[str, Any]:
        """The model under the name that is asked for; raises BadRequest and NotFound."""
        name = body.model or body.name
        if not name:
            raise BadRequest("give a model", param="model")
        self._names.check_tagged(name)
        config = self._folder.blueprint.config
        return {
            "modelfile": "",
            "parameters": "",
            "template": "",
            "details": self._details(),
            "model_info": {
                "general.architecture": config.family,
                "general.parameter_count": self._parameters,
                f"{config.family}.context_length": self._folder.sentence.max_length,
                f"{config.family}.embedding_length": self._folder.dim,
                f"{config.family}.block_count": config.num_layers,
            },
            "capabilities": ["embedding"],
            "modified_at": self._modified,
        }

    def _card(self, name: str) -> dict[str, Any]:
        engine = self._link.description
        return {
            "name": name,
            "model": name,
            "modified_at": self._modified,
            "size": self._size,
            "digest": "" if engine is None else engine.fingerprint,
            "details": self._details(),
            "capabilities": ["embedding"],
        }

    def _details(self) -> dict[str, Any]:
        engine, family = self._link.description, self._folder.blueprint.config.family
        return {
            "parent_model": "",
            "format": "safetensors",
            "family": family,
            "families": [family],
            "parameter_size": _human(self._parameters),
            "quantization_level": "" if engine is None else _LEVELS[engine.dtype],
        }

    @cached_property
    def _weights(self) -> list[Any]:
        folders = self._folder.checkpoints()
        return [file.stat() for folder in folders for file in safetensors_files.files(folder)]

    @property
    def _size(self) -> int:
        """Bytes of the weights' files."""
        return sum(file.st_size for file in self._weights)

    @property
    def _modified(self) -> str:
        latest = max(file.st_mtime for file in self._weights)
        return datetime.fromtimestamp(latest, UTC).isoformat()

    @cached_property
    def _parameters(self) -> int:
        tensors = [safetensors_files.headers(folder) for folder in self._folder.checkpoints()]
        headers = [header for found in tensors for header in found.values()]
        return sum(prod(header.shape) for header in headers if header.dtype in _FLOATS)


def router(models: OllamaModels) -> APIRouter:
    """The routes of this module."""
    routes, responses = api_router("Ollama"), documented(PLAIN)

    @routes.get(
        "/api/tags",
        summary="The names of the served model",
        response_model=Tags,
        responses=responses,
    )
    async def ollama_tags() -> Any:
        return models.tags()

    @routes.get(
        "/api/ps", summary="The model that is loaded", response_model=Loaded, responses=responses
    )
    async def ollama_ps() -> Any:
        return models.loaded()

    @routes.get(
        "/api/version",
        summary="The version of this server",
        response_model=Version,
        responses=responses,
    )
    async def ollama_version() -> Any:
        return {"version": __version__}

    @routes.post(
        "/api/show",
        summary="The served model, described as Ollama does",
        response_model=Shown,
        responses=documented((*BODY, 404)),
        name="show",
    )
    async def ollama_show(context: Context, body: OllamaShowRequest) -> Any:
        return models.show(body)

    return routes


def _human(count: int) -> str:
    """A number of parameters as Ollama has it: 22.7M."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if count >= size:
            return f"{count / size:.1f}{letter}"
    return str(count)
