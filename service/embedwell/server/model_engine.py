"""The engine of one model: started, stopped, and restarted on demand."""

import asyncio
import logging
import time
from collections.abc import Callable

from embedwell.context import ModelContext
from embedwell.engine.protocol.model_state import EngineState, ModelState
from embedwell.engine.protocol.spec import StartupChoices
from embedwell.process.shared_counters import QUEUED_TOKENS, Slot
from embedwell.server.engine_supervisor import EngineSupervisor
from embedwell.server.fork_server_supervisor import ForkServerSupervisor
from embedwell.server.residency import ResidentModel

log = logging.getLogger(__name__)


class ModelEngine:
    """Loads and unloads a model, and informs the HTTP processes through the shared counters."""

    def __init__(
        self,
        model: ModelContext,
        engine_fd: int,
        on_end: Callable[["ModelEngine"], None],
        fork_server: ForkServerSupervisor | None = None,
    ) -> None:
        """engine_fd: the engine's end of the socket pair that hands over connections.

        on_end: called when the engine has been unloaded, or cannot be started.
        fork_server: starts the engines of several models, which then have different names in the
            log.
        """
        self.model, self._fd, self._on_end = model, engine_fd, on_end
        self._fork_server = fork_server
        self._title = f"the engine of {self.name}" if fork_server else "the engine"
        self._counters = model.counters(model.rows - 1)
        self.state = ModelState(self._counters)
        self._supervisor: EngineSupervisor | None = None
        self._choices: StartupChoices | None = None
        self._task: asyncio.Task[None] | None = None
        self.unloading, self._load_started = False, 0.0
        self._ready_since: float | None = None
        self.was_ready = False  # whether it was ready since the server was started
        if not self.kept:
            self.state.set(EngineState.UNLOADED)

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model.settings.name

    @property
    def kept(self) -> bool:
        """Whether the model is loaded from the start and never unloaded for lack of use."""
        return self.model.settings.keep == "always"

    @property
    def running(self) -> bool:
        """Whether there is an engine that loads, serves or ends."""
        return self._task is not None

    @property
    def loading_or_serving(self) -> bool:
        """Whether there is an engine that loads or serves."""
        return self.running and not self.unloading

    @property
    def weight_bytes(self) -> float:
        """Bytes of the model's weights; 0 until an HTTP process has reported them."""
        return self._counters.largest(Slot.WEIGHT_BYTES)

    def load(self) -> None:
        """Start the engine; do nothing while there is one, even one that ends."""
        if self.running:
            return
        if self.state.engine is not EngineState.RUNNING:
            self.state.set(EngineState.RUNNING)
        self.unloading, self._ready_since = False, None
        self._load_started = time.monotonic()
        self._supervisor = EngineSupervisor(
            self.model,
            self._fd,
            title=self._title,
            startup_choices=self._choices,
            on_ready=self._on_ready,
            fork_server=self._fork_server,
        )
        self._task = asyncio.create_task(self._run(self._supervisor))

    def unload(self) -> None:
        """End the engine, if it runs."""
        if self._supervisor is not None and not self.unloading:
            self.state.set(EngineState.UNLOADED)
            self.unloading = True
            self._supervisor.stop()

    def kill(self) -> None:
        """Kill the engine immediately."""
        if self._supervisor is not None:
            self._supervisor.kill()

    def replace_stalled(self, restarts: int) -> None:
        """Kill the engine that was started after so many restarts, if it still runs."""
        if self._supervisor is not None:
            self._supervisor.replace_stalled(restarts)

    async def wait_ended(self) -> None:
        """Wait until there is no engine."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def residency(self) -> ResidentModel:
        """The model's memory and use, for the choice of models to unload."""
        ready = self._ready_since is not None
        busy = self._counters.total(QUEUED_TOKENS) > 0
        last_used = self._counters.largest(Slot.LAST_USED)
        if (
            last_used < self.state.since
        ):  # an operator loads it, or its first request is still waiting
            last_used = self._ready_since or time.monotonic()
        return ResidentModel(
            self.model.index,
            self.weight_bytes,
            last_used,
            self.model.settings.idle_unload,
            may_unload=not self.kept and ready and not busy and not self.unloading,
        )

    async def _run(self, supervisor: EngineSupervisor) -> None:
        await supervisor.run()
        self._choices, self._task, self._supervisor = supervisor.startup_choices, None, None
        if not self.unloading:
            self.state.set(EngineState.FAILED)
        self.unloading = False
        self._on_end(self)

    def _on_ready(self) -> None:
        self.was_ready, self._ready_since = True, time.monotonic()
        if self._load_started:  # otherwise the engine died and was restarted
            self.state.note_loaded(time.monotonic() - self._load_started)
            self._load_started = 0.0
