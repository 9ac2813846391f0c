"""Tasks that requests can name: the adapters of models, each served as a model of its own."""

from collections.abc import Sequence

from embedwell.errors import BadRequest
from embedwell.inputs.prompts import TASK_ROLES
from embedwell.settings.adapters import served_task


class ServedTasks:
    """Maps models and tasks to models."""

    def __init__(self, models: Sequence[tuple[str, str | None]]) -> None:
        """models: the name of each model with its adapter; None for a model without adapters."""
        by_name: dict[str, dict[str, int]] = {}
        self._tasks: list[dict[str, int]] = []  # for each model, the models of its tasks
        for index, (name, adapter) in enumerate(models):
            tasks: dict[str, int] = {}
            if adapter is not None:
                base = name.removesuffix(served_task("", adapter))
                tasks = by_name.setdefault(base, {})
                tasks[adapter] = index
            self._tasks.append(tasks)

    def find(self, index: int, task: str) -> int:
        """Return the index of the model that computes a task in place of another model.

        A model without adapters computes all tasks itself. Raises BadRequest for an unknown task.
        """
        tasks = self._tasks[index]
        known = tasks or TASK_ROLES
        if task not in known:
            raise BadRequest(
                f"no task {task!r}; this model is served for {', '.join(map(repr, known))}"
                if tasks
                else f"no task {task!r}; the tasks are {', '.join(map(repr, known))}",
                code="unknown_task",
                param="task",
            )
        return tasks.get(task, index)

    def of(self, index: int) -> list[str]:
        """Return the tasks that requests for a model can choose; none without adapters."""
        return [*self._tasks[index]]
