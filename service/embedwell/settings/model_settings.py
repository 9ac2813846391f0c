"""The settings of each served model: of a single model, or of several by their names."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from embedwell.settings.settings import ALL_ADAPTERS, Settings
from embedwell_models.config.model_options import OPTION_NAMES

_SERVER_WIDE = {"isa"}
_OPTIONS = (
    *(name for name in OPTION_NAMES if name not in _SERVER_WIDE),
    *("prompts", "keep", "idle_unload"),
)
"""Settings that a table of the file can have; the others apply to the whole server."""
_NOT_WITH_DEVICES = ("device", "models", "models_file", "keep", "idle_unload", "max_model_bytes")
_OF_ONE_MODEL = ("served_name", "revision", "image_model")

Named = tuple[str, dict[str, Any]]


def model_settings(settings: Settings) -> list[Settings]:
    """Return the settings of each model with its source, name and options, the default first.

    Raises ValueError for two models with the same name, an unknown option, a file that is not TOML,
    or several devices with a setting that needs one.
    """
    _check_devices(settings)
    named = [*_from_file(settings.models_file), *_from_list(settings.models)]
    if not named:
        if settings.models_file is not None:
            raise ValueError(f"models_file: {settings.models_file} has no tables")
        return [settings]
    for name in _OF_ONE_MODEL:
        if name in settings.model_fields_set and getattr(settings, name):
            raise ValueError(
                f"{name} applies to a single model: leave it out with models or models_file"
            )
    names = [name for name, _ in named]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"models: two are named {repeated[0]!r}")
    return [_with_options(settings, name, options) for name, options in named]


def _check_devices(settings: Settings) -> None:
    if not settings.devices:
        return
    for name in _NOT_WITH_DEVICES:
        if getattr(settings, name) != Settings.model_fields[name].default:
            raise ValueError(f"devices: it cannot be combined with {name}")
    if settings.adapter == ALL_ADAPTERS or "," in settings.adapter:
        raise ValueError("devices: each of several adapters has an engine; choose one adapter")


def _from_list(models: str) -> Iterator[Named]:
    for pair in filter(None, models.split(",")):
        name, _, source = pair.partition("=")
        yield name, {"model": source}


def _from_file(file: Path | None) -> Iterator[Named]:
    if file is None:
        return
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ValueError(f"models_file: {file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"models_file: {file}: {error}") from None
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ValueError(f"models_file: {file}: {name} is not a table: begin it with [{name}]")
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
        raise ValueError(f"models: {name!r} is not a name of a model")
    fields = {**settings.model_dump(), "served_name": name, **options}
    try:
        return Settings(**fields)
    except ValidationError as error:
        [problem, *_] = error.errors(include_url=False)
        field = "source" if problem["loc"] == ("model",) else problem["loc"][0]
        message = problem["msg"].removeprefix("Value error, ")
        raise ValueError(f"model {name}: {field}: {message}") from None


def expand_adapters(settings: Settings, folder: Path) -> list[tuple[Settings, Path]]:
    """Return the settings of a model, or of each of its tasks if the setting lists several.

    Each task has the names of the model, followed by a colon and the task. The first task also has
    the names of the model itself. Raises ModelError.

    folder: folder of the model, which is returned with each task.
    """
    listed = settings.adapter.split(",")
    tasks = _all_tasks(settings, folder) if listed == [ALL_ADAPTERS] else listed
    if len(tasks) == 1:
        return [(settings.model_copy(update={"adapter": tasks[0]}), folder)]
    return [(_of_task(settings, task, task == tasks[0]), folder) for task in tasks]


def served_task(name: str, task: str) -> str:
    """Return the name under which a task of a model is served."""
    return f"{name}:{task}"


def _all_tasks(settings: Settings, folder: Path) -> list[str]:
    # Large imports, like all modules that read a model.
    from embedwell_models.config.model_spec import NO_ADAPTER
    from embedwell_models.description.model_description import ModelDescription

    model = ModelDescription.read(folder, replace(settings.options, adapter=NO_ADAPTER))
    adapters = model.spec.adapters
    return [*adapters.names] if adapters else [ALL_ADAPTERS]  # which is rejected with its reason


def _of_task(settings: Settings, task: str, first: bool) -> Settings:
    names = [served_task(name, task) for name in settings.names]
    names += settings.names if first else []
    return settings.model_copy(update={"adapter": task, "served_name": ",".join(names)})
