"""The settings of each served model: of a single model, or of several by their names."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from embedwell.settings.settings import Settings

_OPTIONS = (
    *("revision", "device", "dtype", "pooling", "rerank_format", "adapter"),
    *("threads", "cuda_graphs", "max_batch_tokens", "keep", "idle_unload"),
)
"""Settings that a table of the file can have; the others apply to the whole server."""
_OF_ONE_MODEL = ("served_name", "revision")

Named = tuple[str, dict[str, Any]]


def model_settings(settings: Settings) -> list[Settings]:
    """Return the settings of each model with its source, name and options, the default first.

    Raises ValueError for two models with the same name, an unknown option, or a file that is not
    TOML.
    """
    named = [*_from_file(settings.models_file), *_from_list(settings.models)]
    if not named:
        if settings.models_file is not None:
            raise ValueError(f"models_file: {settings.models_file} has no tables")
        return [settings]
    for name in _OF_ONE_MODEL:
        if name in settings.model_fields_set and getattr(settings, name):
            raise ValueError(
                f"{name}: it is of a single model, and models or models_file names several"
            )
    names = [name for name, _ in named]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"models: two are named {repeated[0]!r}")
    return [_with_options(settings, name, options) for name, options in named]


def _from_list(models: str) -> Iterator[Named]:
    for pair in filter(None, models.split(",")):
        name, _, source = pair.partition("=")
        yield name, {"model": source}


def _from_file(file: Path | None) -> Iterator[Named]:
    if file is None:
        return
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise ValueError(f"models_file: {file}: {error}") from None
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ValueError(f"models_file: {file}: {name} is no table: begin it with [{name}]")
        yield name, _options(f"models_file: {file}: [{name}]", table)


def _options(place: str, table: Mapping[str, Any]) -> dict[str, Any]:
    for key in table:
        if key not in ("source", *_OPTIONS):
            raise ValueError(f"{place} has {key}; its options are source, {', '.join(_OPTIONS)}")
    if "source" not in table:
        raise ValueError(f"{place} has no source: a folder, or a model's name")
    return {"model": table["source"]} | {key: table[key] for key in _OPTIONS if key in table}


def _with_options(settings: Settings, name: str, options: dict[str, Any]) -> Settings:
    if not name.strip() or "," in name or name == "*":
        raise ValueError(f"models: {name!r} is no name of a model")
    fields = {**settings.model_dump(), "served_name": name, **options}
    try:
        return Settings(**fields)
    except ValidationError as error:
        [problem, *_] = error.errors(include_url=False)
        field = "source" if problem["loc"] == ("model",) else problem["loc"][0]
        raise ValueError(f"model {name}: {field}: {problem['msg']}") from None
