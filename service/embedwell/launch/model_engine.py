"""The engine of one model: started, stopped, and restarted on demand."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

import orjson

from embedwell.engine.wire.engine_state import QUEUED_TOKENS, CounterSlot, EngineState, ModelState
from embedwell.engine.wire.spec import EngineSpec, StartupChoices
from embedwell.inherited import InheritedModel
from embedwell.launch.processes import Spawn
from embedwell.launch.supervisor import ChildSpec, HangLimits, Report, Supervisor

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ResidentModel:
    """A model that is loaded or loading.

    weight_bytes: bytes of its weights.
    last_used: seconds of a monotonic clock.
    idle_unload: seconds without a request after which it is unloaded; 0 for never.
    may_unload: whether it is loaded on demand, ready, and computes nothing.
    """

    index: int
    weight_bytes: float
    last_used: float
    idle_unload: float
    may_unload: bool


class ModelEngine:
    """Loads and unloads a model, and informs the HTTP processes through the shared counters."""

    def __init__(  # noqa: PLR0913 - the last ones by name
        self,
        model: InheritedModel,
        engine_fd: int,
        title: str,
        spawn: Spawn,
        *,
        on_end: Callable[["ModelEngine"], None],
        on_ready: Callable[["ModelEngine"], None],
    ) -> None:
        """engine_fd: the engine's end of the socket pair that hands over connections.

        title: name of the engine in the log.
        spawn: starts its process.
        on_end: called when the engine has been unloaded, or cannot be started.
        on_ready: called when an engine is ready, also one that replaces another.
        """
        self.model, self._on_end, self._on_ready = model, on_end, on_ready
        limits = HangLimits(model.settings.load_timeout, "EMBEDWELL_LOAD_TIMEOUT")
        self._child = ChildSpec(title, spawn, self._engine_config, limits)
        self._spec = _engine_spec(model, engine_fd)
        self._counters = model.counters(model.rows - 1)
        self.state = ModelState(self._counters)
        self._supervisor: Supervisor | None = None
        self._task: asyncio.Task[None] | None = None
        self.unloading, self._load_started = False, 0.0
        self._ready_since: float | None = None
        self.was_ready = False  # whether it was ready since the server was started
        self.server_stops = False  # and only requests that were sent before wait for the engine
        self.failure: str | None = None  # why the last engine cannot run
        self.resources = ExitStack()
        """Sockets and counters shared with HTTP processes; closed when the model is removed."""
        if not self.kept:
            self.state.set(EngineState.UNLOADED)

    @property
    def name(self) -> str:
        """The model's name, with the device if there are several."""
        return self.model.label

    @property
    def kept(self) -> bool:
        """Whether the model is loaded from the start and never unloaded for lack of use."""
        return self.model.settings.keep == "always"

    @property
    def tried(self) -> bool:
        """Whether it was ready, or cannot run."""
        return self.was_ready or self.failure is not None

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
        return self._counters.largest(CounterSlot.WEIGHT_BYTES)

    def load(self) -> None:
        """Start the engine; do nothing while there is one, even one that ends."""
        if self.running:
            return
        if self.state.engine is not EngineState.RUNNING:
            self.state.set(EngineState.RUNNING)
        self.unloading, self._ready_since, self.failure = False, None, None
        self._load_started = time.monotonic()
        log.info("%s is being loaded", self.name)
        self._supervisor = Supervisor(self._child, self._on_report, self._count_restart)
        self._task = asyncio.create_task(self._run(self._supervisor))

    def load_alike(self, other: "ModelEngine") -> None:
        """Start the engine with another's choices, such as the precision, unless it has failed."""
        if not self.running and self.failure is None and (choices := other._spec.startup_choices):
            choices = replace(choices, device=self.model.settings.device)
            self._spec = replace(self._spec, startup_choices=choices)
            self.load()

    def unload(self) -> None:
        """End the engine, if it runs; kill one that is still loading, as nothing waits for it."""
        if self._supervisor is not None and not self.unloading:
            self.state.set(EngineState.UNLOADED)
            self.unloading = True
            self._supervisor.stop(None if self._supervisor.ready else 0.0)

    def kill(self) -> None:
        """Kill the engine immediately."""
        if self._supervisor is not None:
            self._supervisor.kill()

    def replace_stalled(self, restarts: int) -> None:
        """Kill the engine that was started after so many restarts, if it still runs."""
        current = int(self._counters.row[CounterSlot.ENGINE_RESTARTS])
        if self._supervisor is not None and self._supervisor.ready and restarts == current:
            log.error("%s hangs and is killed", self._child.name)
            self._supervisor.kill()  # another one follows

    async def wait_spawned(self) -> None:
        """Wait until the engine's process was started, or could not be; if there is one."""
        if self._supervisor is not None:
            await self._supervisor.spawned.wait()

    async def wait_ended(self) -> None:
        """Wait until there is no engine."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def resident_model(self, index: int) -> ResidentModel:
        """The model's memory and use, for the choice of models to unload."""
        ready = self._ready_since is not None
        busy = self._counters.total(QUEUED_TOKENS) > 0
        last_used = self._counters.largest(CounterSlot.LAST_USED)
        # An operator loads it, or its first request is still waiting.
        if last_used < self.state.since:
            last_used = self._ready_since or time.monotonic()
        return ResidentModel(
            index,
            self.weight_bytes,
            last_used,
            0.0 if self.kept else self.model.settings.idle_unload,
            may_unload=not self.kept and ready and not busy and not self.unloading,
        )

    async def _run(self, supervisor: Supervisor) -> None:
        await supervisor.run()
        self.failure = supervisor.failure
        self._task, self._supervisor = None, None
        if not self.unloading:
            self.state.set(EngineState.FAILED)
        self.unloading = False
        self._on_end(self)

    def _on_report(self, report: Report) -> None:
        if report["event"] != "ready":
            return
        choices = StartupChoices(**report["startup_choices"])
        self._spec = replace(self._spec, startup_choices=choices)  # for the next engine
        self.was_ready, self._ready_since = True, time.monotonic()
        if self._load_started:  # otherwise the engine died and was restarted
            seconds = time.monotonic() - self._load_started
            if not self.server_stops:
                log.info("%s is ready after %.1f s", self.name, seconds)
            self.state.note_loaded(seconds)
            self._load_started = 0.0
        self._on_ready(self)

    def _count_restart(self) -> None:
        self._counters.row[CounterSlot.ENGINE_RESTARTS] += 1

    def _engine_config(self) -> bytes:
        settings = self.model.settings
        return orjson.dumps([settings.log_level, settings.log_format, self._spec])


def _engine_spec(model: InheritedModel, engine_fd: int) -> EngineSpec:
    settings = model.settings
    return EngineSpec(
        model=model.label,
        folder=str(model.folder),
        options=settings.options,
        startup_cache=str(settings.cache / "startup") if settings.startup_cache else "",
        accept_fd=engine_fd,
        counters_fd=model.counters_fd,
        counters_rows=model.rows,
        cpus=model.cpus,
    )
