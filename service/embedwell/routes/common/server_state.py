"""Objects that the routes of a server share."""

from collections.abc import Callable, Mapping, Sequence

from embedwell.compute.memory_budget import MemoryBudget
from embedwell.compute.served_model import ServedModel
from embedwell.routes.common.model_registry import ModelRegistry
from embedwell.routes.common.router import DirectRoute
from embedwell.settings.settings import Settings
from embedwell.telemetry.metrics import Metrics


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
