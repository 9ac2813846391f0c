"""Serve a model with adapters as several models: one for each task in EMBEDWELL_ADAPTER."""

from pathlib import Path

from embedwell.settings.settings import ALL_ADAPTERS, Settings


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
    from embedwell_models.config.checkpoint_layout import (
        NO_ADAPTER,  # a large import, like all modules that read a model
    )
    from embedwell_models.model_description import ModelDescription

    model = ModelDescription.read(folder, settings.pooling, settings.rerank_format, NO_ADAPTER)
    adapters = model.spec.adapters
    return [*adapters.names] if adapters else [ALL_ADAPTERS]  # which is rejected with its reason


def _of_task(settings: Settings, task: str, first: bool) -> Settings:
    names = [served_task(name, task) for name in settings.names]
    names += settings.names if first else []
    return settings.model_copy(update={"adapter": task, "served_name": ",".join(names)})
