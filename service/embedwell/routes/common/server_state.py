"""The served models, the choice of one by a request, and other objects that routes share."""

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from embedwell.compute.request_limits import MemoryBudget
from embedwell.compute.served_model import ServedModel
from embedwell.errors import BadRequest, UnknownModel
from embedwell.http.request_context import model_in_path
from embedwell.routes.common.router import DirectRoute
from embedwell.settings.model_settings import served_task
from embedwell.settings.settings import Settings
from embedwell.telemetry.metrics import Metrics
from embedwell_models.outputs.names import DECISION, DENSE, LABELS, MULTI, SPARSE
from embedwell_models.read.prompts import TASK_ROLES, Role

_ROLE_SUFFIXES: dict[str, Role] = {"-query": "query", "-passage": "document"}  # NVIDIA NIM's
_LATEST = ":latest"
_ROOT_TASKS = ("classify", "rerank", LABELS, DECISION, DENSE, MULTI, SPARSE)
"""Tasks and outputs, of which the first that a model has is served at /."""
_RETRIEVAL = ("retrieval.query", "retrieval.passage")  # Jina's tasks
_BOTH = "retrieval"  # a single adapter for queries and documents, as in Jina v5
_PLACEHOLDERS = ("tei", "text-embeddings-inference", "default/not-specified")
"""Names that clients of TEI and Infinity send by default."""


class ServedNames:
    """The names of all models, each of which has a primary name for responses."""

    def __init__(self, *models: Sequence[str], any_name: bool = False) -> None:
        """models: the names of each model, at least one; the first is the primary name.

        any_name: accept every other name, too.
        """
        self.names = [name for names in models for name in names]
        self._any_name = any_name
        self._models: dict[str, int | None] = dict.fromkeys(_PLACEHOLDERS)
        self._models |= {name: index for index, names in enumerate(models) for name in names}
        self._untagged = {untagged(name): index for name, index in self._models.items()}

    def find(self, name: str) -> int | None:
        """Return the index of the model; None for the default model. Raises UnknownModel.

        An unknown name is an error because vectors of another model would be wrong without notice.
        """
        if name not in self._models:
            self._check_any(name)
        return self._models.get(name)

    def find_tagged(self, name: str) -> int | None:
        """Like `find` for an Ollama name, whose tag `latest` is optional."""
        if untagged(name) not in self._untagged:
            self._check_any(name, f"model {name!r} not found")  # which Ollama's clients look for
        return self._untagged.get(untagged(name))

    def find_with_role(self, name: str) -> tuple[int | None, Role | None]:
        """Like `find`; returns the role that a suffix of the name selects, too.

        The name may also have Ollama's tag `latest`.
        """
        if name in self._models:
            return self._models[name], None
        for suffix, role in _ROLE_SUFFIXES.items():
            base = name.removesuffix(suffix)
            if base != name and (base in self._models or self._any_name):
                return self._models.get(base), role
        if name.endswith(_LATEST) and untagged(name) in self._models:
            return self._models[untagged(name)], None
        self._check_any(name)
        return None, None

    def _check_any(self, name: str, message: str = "") -> None:
        if not self._any_name:
            names = ", ".join(map(repr, self.names))
            message = message or f"no model {name!r}"
            raise UnknownModel(f"{message}; this server has {names}", param="model")


def tagged(name: str) -> str:
    """Return an Ollama name with its tag, by default `latest`."""
    return name if ":" in name else name + _LATEST


def untagged(name: str) -> str:
    """Return an Ollama name without the tag `latest`."""
    return name.removesuffix(_LATEST)


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
        if task in _RETRIEVAL and task not in tasks and _BOTH in tasks:
            task = _BOTH
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


S = TypeVar("S")


def root_task(model: ServedModel) -> str:
    """Return the task or output of a model that POST / computes, as in TEI."""
    offered = model.task_and_outputs
    return next((name for name in _ROOT_TASKS if name in offered), offered[0])


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
        if index is None:
            in_path = model_in_path.get()
            index = self._default if in_path is None else in_path
        return self.services[index if task is None else self._tasks.find(index, task)]


class ModelRegistry:
    """The served models, and the services that a route has for each of them."""

    def __init__(self, models: Sequence[ServedModel], any_name: bool = False) -> None:
        """any_name: a request for an unknown name uses the default model."""
        self.models = models
        self._names = ServedNames(*[model.settings.names for model in models], any_name=any_name)
        self._tasks = ServedTasks([(model.name, model.adapter) for model in models])

    def choice(self, service: Callable[[ServedModel], S], *offers: str) -> ModelChoice[S]:
        """Create the service of each model.

        offers: outputs or tasks. Requests without a model's name use the first model with the first
            of them that any model has, else the first model.
        """
        default = (
            index
            for offer in offers
            for index, model in enumerate(self.models)
            if offer in model.task_and_outputs
        )
        services = [service(model) for model in self.models]
        return ModelChoice(self._names, services, next(default, 0), self._tasks)

    def choose(self, name: str) -> ServedModel:
        """Return the model of a name; raises UnknownModel."""
        return self.models[self._names.find(name) or 0]

    def retrieval_pair(self, model: ServedModel) -> tuple[ServedModel, ServedModel]:
        """Return the models that embed queries and documents to be compared with each other.

        Both are the model itself, unless it has adapters for queries and for documents.
        """
        tasks = self.tasks_of(model)
        if model.adapter not in _RETRIEVAL or any(task not in tasks for task in _RETRIEVAL):
            return model, model
        query, document = (self.models[self._tasks.find(model.index, t)] for t in _RETRIEVAL)
        return query, document

    def tasks_of(self, model: ServedModel) -> list[str]:
        """Return the tasks that requests for a model can choose; none without adapters."""
        return self._tasks.of(model.index)


class ServerState(ModelRegistry):
    """The served models, and the other objects that the routes of a server share.

    started: start time of the server, in seconds since 1970.
    shutting_down: returns whether the server was told to stop.
    memory: memory for large requests.
    routes: the routes of the routers that were created before, by path.
    """

    def __init__(  # noqa: PLR0913 - by name
        self,
        *,
        settings: Settings,
        models: Sequence[ServedModel],
        metrics: Metrics,
        started: int,
        shutting_down: Callable[[], bool],
        memory: MemoryBudget,
        routes: Mapping[str, DirectRoute],
    ) -> None:
        super().__init__(models, settings.any_name)
        self.settings, self.metrics, self.started = settings, metrics, started
        self.shutting_down, self.memory, self.routes = shutting_down, memory, routes
