"""GET /api/tags, /api/ps and /api/version, POST /api/show: Ollama's model information."""

from datetime import UTC, datetime
from functools import cached_property
from math import prod
from typing import Any

from fastapi import APIRouter

from embedwell import __version__
from embedwell.api.body import Body, examples
from embedwell.api.model_choice import ModelChoice
from embedwell.api.openapi_responses import AUTH_ERRORS, BODY_ERRORS, route_responses
from embedwell.api.router import Context, api_router
from embedwell.api.schemas.ollama import Loaded, Shown, Tags, Version
from embedwell.api.served_names import tagged
from embedwell.errors import BadRequest
from embedwell.inference.served_model import ServedModel
from embedwell_models.checkpoint import safetensors_files

_NEVER = "9999-12-31T23:59:59Z"
_FLOAT_DTYPES = {"F64", "F32", "F16", "BF16"}
_QUANTIZATION_LEVELS = {"float32": "F32", "bfloat16": "BF16", "float16": "F16", "int8": "I8"}


class OllamaShowRequest(Body):
    """Request body of /api/show.

    - `model`, or `name` from older clients: name of a model. The other fields are ignored.
    """

    model_config = examples({"model": "all-MiniLM-L6-v2"}, {"name": "all-MiniLM-L6-v2"})

    model: str | None = None
    name: str | None = None
    verbose: bool | None = None
    system: str | None = None
    template: str | None = None
    options: dict[str, Any] | None = None


class OllamaModel:
    """Describes a served model in Ollama's format."""

    def __init__(self, model: ServedModel) -> None:
        self._model, self._folder, self._engine = model, model.folder, model.engine
        self._capabilities = ["embedding"] if model.task == "embed" else []

    def tags(self) -> list[dict[str, Any]]:
        """Describe the model under each of its names."""
        return [self._describe(tagged(name)) for name in self._model.settings.names]

    def loaded(self) -> list[dict[str, Any]]:
        """Describe the model under its primary name, if an engine has loaded it."""
        engine = self._engine.description
        if engine is None or self._model.state != "loaded":
            return []
        model = self._describe(tagged(self._model.name))
        fields = ("name", "model", "size", "digest", "details")
        return [
            {
                **{field: model[field] for field in fields},
                "expires_at": _NEVER,
                "size_vram": self._size if engine.device.startswith("cuda") else 0,
                "context_length": self._folder.sentence.max_length,
            }
        ]

    def show(self) -> dict[str, Any]:
        """Describe the model in detail."""
        config = self._folder.spec.config
        return {
            "modelfile": "",
            "parameters": "",
            "template": "",
            "details": self._details(),
            "model_info": {
                "general.architecture": config.family,
                "general.parameter_count": self._parameter_count,
                f"{config.family}.context_length": self._folder.sentence.max_length,
                f"{config.family}.embedding_length": self._folder.dim,
                f"{config.family}.block_count": config.num_layers,
            },
            "capabilities": self._capabilities,
            "modified_at": self._modified,
        }

    def _describe(self, name: str) -> dict[str, Any]:
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

    def _details(self) -> dict[str, Any]:
        engine, family = self._engine.description, self._folder.spec.config.family
        return {
            "parent_model": "",
            "format": "safetensors",
            "family": family,
            "families": [family],
            "parameter_size": _format_count(self._parameter_count),
            "quantization_level": "" if engine is None else _QUANTIZATION_LEVELS[engine.dtype],
        }

    @cached_property
    def _file_stats(self) -> list[Any]:
        folders = self._folder.checkpoints()
        return [
            file.stat()
            for folder in folders
            for file in safetensors_files.require_weight_files(folder)
        ]

    @property
    def _size(self) -> int:
        """Return the bytes of the weight files."""
        return sum(stat.st_size for stat in self._file_stats)

    @property
    def _modified(self) -> str:
        latest = max(stat.st_mtime for stat in self._file_stats)
        return datetime.fromtimestamp(latest, UTC).isoformat()

    @cached_property
    def _parameter_count(self) -> int:
        tensors = [safetensors_files.headers(folder) for folder in self._folder.checkpoints()]
        headers = [header for by_name in tensors for header in by_name.values()]
        return sum(prod(header.shape) for header in headers if header.dtype in _FLOAT_DTYPES)


def router(models: ModelChoice[OllamaModel]) -> APIRouter:
    """Create the routes of this module."""
    routes, responses = api_router("Ollama"), route_responses(AUTH_ERRORS)

    @routes.get(
        "/api/tags",
        summary="List the served models (Ollama)",
        response_model=Tags,
        responses=responses,
    )
    async def ollama_tags() -> Any:
        return {"models": [tag for model in models.services for tag in model.tags()]}

    @routes.get(
        "/api/ps",
        summary="List the loaded models (Ollama)",
        response_model=Loaded,
        responses=responses,
    )
    async def ollama_ps() -> Any:
        return {"models": [each for model in models.services for each in model.loaded()]}

    @routes.get(
        "/api/version",
        summary="Get the server's version (Ollama)",
        response_model=Version,
        responses=responses,
    )
    async def ollama_version() -> Any:
        return {"version": __version__}

    @routes.post(
        "/api/show",
        summary="Describe a model (Ollama)",
        response_model=Shown,
        responses=route_responses((*BODY_ERRORS, 404)),
        name="show",
    )
    async def ollama_show(context: Context, body: OllamaShowRequest) -> Any:
        name = body.model or body.name
        if not name:
            raise BadRequest("the field model is missing: give a model's name", param="model")
        return models.choose_tagged(name).show()

    return routes


def _format_count(count: int) -> str:
    """Format a number of parameters as Ollama does: 22.7M."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)
