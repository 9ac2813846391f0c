"""Choose a model by the name and the task in a request."""

from collections.abc import Sequence
from typing import Generic, TypeVar

from embedwell.api.served_names import ServedNames
from embedwell.api.served_tasks import ServedTasks
from embedwell.inputs.prompts import Role

S = TypeVar("S")


class ModelChoice(Generic[S]):
    """Maps the fields `model` and `task` of a request to the service of a model."""

    def __init__(
        self,
        names: ServedNames,
        services: Sequence[S],
        default: int = 0,
        tasks: ServedTasks | None = None,
    ) -> None:
        """services: one for each model, in the order of the models.

        default: index of the model for requests without a name.
        tasks: the tasks of the models; by default no model has adapters.
        """
        self.services = list(services)
        self._names, self._default = names, default
        self._tasks = tasks or ServedTasks([(name, None) for name in names.names])

    def choose(self, name: str | None = None, task: str | None = None) -> S:
        """Return the service for a model and task; raises UnknownModel and BadRequest."""
        return self._service(None if name is None else self._names.find(name), task)

    def choose_tagged(self, name: str) -> S:
        """Like `choose` for an Ollama name, whose tag `latest` is optional."""
        return self._service(self._names.find_tagged(name))

    def choose_with_role(self, name: str | None, task: str | None = None) -> tuple[S, Role | None]:
        """Like `choose`; returns the role that a suffix of the name selects, too."""
        if name is None:
            return self._service(None, task), None
        index, role = self._names.find_with_role(name)
        return self._service(index, task), role

    def _service(self, index: int | None, task: str | None = None) -> S:
        index = self._default if index is None else index
        return self.services[index if task is None else self._tasks.find(index, task)]
