"""Tasks that requests may name: those of models with adapters, each of which is a model."""

from collections.abc import Sequence

from embedwell.errors import BadRequest
from embedwell.inputs.prompts import TASK_ROLES
from embedwell.settings.adapters import served_task


class ServedTasks:
    """The model of each task, and the tasks of each model."""

    def __init__(self, models: Sequence[tuple[str, str | None]]) -> None:
        """models: the name of each, and its adapter; None for a model without adapters."""
        by_name: dict[str, dict[str, int]] = {}
        self._tasks: list[dict[str, int]] = []  # of each model, the models of its tasks
        for index, (name, adapter) in enumerate(models):
            tasks: dict[str, int] = {}
            if adapter is not None:
                base = name.removesuffix(served_task("", adapter))
                tasks = by_name.setdefault(base, {})
                tasks[adapter] = index
            self._tasks.append(tasks)

    def find(self, index: int, task: str) -> int:
        """Return the index of the model that computes for a task in place of another.

        A model without adapters is the same for all tasks. Raises BadRequest for an unknown one.
        """
        tasks = self._tasks[index]
        known = tasks or TASK_ROLES
        if task not in known:
            raise BadRequest(
                f"no task {task!r}; the model is served for {', '.join(map(repr, known))}"
                if tasks
                else f"no task {task!r}; it may be {', '.join(map(repr, known))}",
                code="unknown_task",
                param="task",
            )
        return tasks.get(task, index)

    def of(self, index: int) -> list[str]:
        """Return the tasks among which requests for a model choose; none without adapters."""
        return [*self._tasks[index]]
