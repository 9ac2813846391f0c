"""The engines of all models, within the memory limit for their weights."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence

from embedwell.engine.wire.engine_state import EngineState
from embedwell.inherited import InheritedModel, InheritedServer
from embedwell.launch.model_engine import ModelEngine, ResidentModel
from embedwell.launch.processes import Launch, program
from embedwell.settings.settings import Settings
from embedwell_models.encoder.device import may_be_gpu

log = logging.getLogger(__name__)

_TICK = 1.0  # seconds between the checks for unused models
_TRIAL_TICK = 0.1  # seconds between the checks whether added models are ready


class ModelEngines:
    """Starts the engines of the models that are kept, and those of others on demand.

    If the engine of a model cannot be started, requests for that model fail. The server ends only
    if it has no other model, or if the model is kept and was never ready, because its settings are
    wrong.

    If the only model is on several devices, the first engine that is ready decides what is
    measured, and then the others start. The server ends only if all of them cannot be started.
    """

    def __init__(
        self, context: InheritedServer, engine_fds: Sequence[int], launch: Launch = program
    ) -> None:
        """engine_fds: for each model, the engine's end of the socket pair for connections."""
        self._launch, several = launch, len(context.models) > 1
        self.engines: Sequence[ModelEngine] = [
            self.create(model, fd, f"the engine of {model.label}" if several else "the engine")
            for model, fd in zip(context.models, engine_fds, strict=True)
        ]
        """The engines, in the order of the models."""
        self._tried: Sequence[ModelEngine] = ()  # those that `add` waits for
        self._alike = bool(context.settings.engine_names)  # whether all are of the same model
        self._limit = context.settings.max_model_bytes
        self._waiting: list[ModelEngine] = []  # to be loaded when there is room
        self._stopped, self._started = asyncio.Event(), asyncio.Event()
        self._changed = asyncio.Event()  # set when an engine starts, is ready or ends
        self.need_torch = any(needs_torch(model.settings) for model in context.models)
        """Whether an engine needs torch, which takes seconds to import before the first one."""
        self.failure: str | None = None
        """Why the server has to end, if an engine that it needs cannot run."""

    def create(self, model: InheritedModel, engine_fd: int, title: str) -> ModelEngine:
        """Create the engine of a model, without loading it.

        engine_fd: the engine's end of the socket pair for connections.
        title: name of the engine in the log.
        """
        spawn = self._launch(engine_module(model.settings), [engine_fd, model.counters_fd])
        return ModelEngine(
            model, engine_fd, title, spawn, on_end=self._on_end, on_ready=self._on_ready
        )

    async def add(self, engines: Sequence[ModelEngine]) -> str | None:
        """Load those of more engines that are kept; return why one of them cannot run, if so."""
        self.engines, self._tried = [*self.engines, *engines], engines
        kept = [engine for engine in engines if engine.kept]
        for engine in kept:
            engine.load()
        while not self._stopped.is_set() and not all(engine.tried for engine in kept):
            await asyncio.sleep(_TRIAL_TICK)
        self._tried = ()
        failed = next((engine for engine in kept if engine.failure), None)
        if failed is not None:
            await self.remove(engines)
        return None if failed is None else failed.failure

    async def remove(self, engines: Sequence[ModelEngine]) -> None:
        """End engines for good."""
        for engine in engines:
            self.unload(engine)
        for engine in engines:
            await engine.wait_ended()
            engine.resources.close()
        self.engines = [engine for engine in self.engines if engine not in engines]

    async def run(self) -> None:
        """Run until all engines are stopped, or an engine fails that the server needs."""
        for engine in self.engines[:1] if self._alike else self.engines:
            if engine.kept and not self._stopped.is_set():
                engine.load()
        self._started.set()
        while not self._stopped.is_set():
            self._changed.clear()
            self._unload_idle()
            now = time.monotonic()
            next_check = _TICK if self._waiting else seconds_until_check(self._loaded(), now)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), next_check)
        for engine in self.engines:
            await engine.wait_ended()

    async def wait_spawned(self) -> None:
        """Wait until the processes of the models that are loaded from the start were started."""
        await self._started.wait()
        for engine in self.engines:
            await engine.wait_spawned()

    def load(self, engine: ModelEngine) -> None:
        """Load a model once there is room for it; do nothing if it is loaded."""
        if self._stopped.is_set() or engine.loading_or_serving:
            return
        self._changed.set()
        kept = [other.weight_bytes for other in self.engines if other.kept and other is not engine]
        if 0 < self._limit < sum(kept) + engine.weight_bytes:
            log.error(
                "%s is not loaded: its weights (%.0f MB) and those of the models that are "
                "kept exceed EMBEDWELL_MAX_MODEL_BYTES; raise it",
                *(engine.name, engine.weight_bytes / 1e6),
            )
            engine.state.set(EngineState.FAILED)
            return
        if engine not in self._waiting:
            self._waiting.append(engine)
        self._load_waiting()

    def unload(self, engine: ModelEngine) -> None:
        """Unload a model until the next request for it."""
        if engine in self._waiting:
            self._waiting.remove(engine)
        engine.unload()

    def note_server_stops(self) -> None:
        """Note that the server stops once its requests are done."""
        for engine in self.engines:
            engine.server_stops = True

    def stop(self) -> None:
        """Let all engines end."""
        self._stopped.set()
        self._changed.set()
        for engine in self.engines:
            engine.unload()

    def kill(self) -> None:
        """Kill all engines immediately."""
        self.stop()
        for engine in self.engines:
            engine.kill()

    def _on_end(self, engine: ModelEngine) -> None:
        self._changed.set()
        if self._stopped.is_set() or engine in self._tried:
            return
        if engine.state.engine is EngineState.FAILED:
            if self._alike and self._continue_without(engine):
                return
            only = self._alike or len(self.engines) == 1
            if engine.kept and (only or not engine.was_ready):
                self.failure = self.failure or engine.failure
                self.stop()
                return
            log.error("%s", engine.failure)
        else:
            log.info("%s is unloaded", engine.name)
        self._load_waiting()

    def _on_ready(self, engine: ModelEngine) -> None:
        self._changed.set()
        if self._alike and not self._stopped.is_set():
            for other in self.engines:
                other.load_alike(engine)

    def _continue_without(self, failed: ModelEngine) -> bool:
        """Return whether other devices have the model; start the next one if none runs."""
        rest = [engine for engine in self.engines if engine.failure is None]
        if rest:
            log.error("%s; the server continues without this device", failed.failure)
            if not any(engine.running for engine in rest):
                rest[0].load()
        return bool(rest)

    def _unload_idle(self) -> None:
        for index in idle_models(self._loaded(), time.monotonic()):
            log.info(
                "%s is unloaded, because it had no requests for EMBEDWELL_IDLE_UNLOAD seconds",
                self.engines[index].name,
            )
            self.engines[index].unload()
        self._load_waiting()

    def _load_waiting(self) -> None:
        for engine in [*self._waiting]:
            if not engine.running and self._make_room(engine):
                self._waiting.remove(engine)
                engine.load()

    def _loaded(self) -> list[ResidentModel]:
        """The models that are loaded or loading, by the index of their engines."""
        return [
            engine.resident_model(index)
            for index, engine in enumerate(self.engines)
            if engine.running
        ]

    def _make_room(self, engine: ModelEngine) -> bool:
        """Return whether there is room for a model now; unload others if it needs their memory."""
        if not self._limit:
            return True
        if any(other.unloading for other in self.engines):
            return False
        replaced = models_to_replace(self._loaded(), engine.weight_bytes, self._limit)
        for index in replaced or ():
            log.info("%s is unloaded to make room for %s", self.engines[index].name, engine.name)
            self.engines[index].unload()
        return replaced == []


def idle_models(loaded: Sequence[ResidentModel], now: float) -> list[int]:
    """Return the indices of the models to unload because they had no request for long enough."""
    return [
        model.index
        for model in loaded
        if model.may_unload and model.idle_unload and now - model.last_used >= model.idle_unload
    ]


def seconds_until_check(loaded: Sequence[ResidentModel], now: float) -> float | None:
    """Return the seconds until a model may have had no request for long enough; None for never."""
    return min(
        (
            max(model.last_used + model.idle_unload - now, _TICK) if model.may_unload else _TICK
            for model in loaded
            if model.idle_unload
        ),
        default=None,
    )


def models_to_replace(
    loaded: Sequence[ResidentModel], weight_bytes: float, limit: float
) -> list[int] | None:
    """Return the indices of the models to unload before another is loaded.

    The least recently used come first. The list is empty if there is room, and None if there is no
    room at the moment, because the others are kept or compute.

    weight_bytes: bytes of the other model's weights.
    limit: maximum bytes of all weights.
    """
    excess = sum(model.weight_bytes for model in loaded) + weight_bytes - limit
    replaced = []
    for model in sorted(loaded, key=lambda model: model.last_used):
        if excess <= 0:
            break
        if model.may_unload:
            replaced.append(model.index)
            excess -= model.weight_bytes
    return None if excess > 0 else replaced


def engine_module(settings: Settings) -> str:
    """Return the module of a model's engine."""
    module = "torch_engine_process" if needs_torch(settings) else "engine_process"
    return f"embedwell.launch.{module}"


def needs_torch(settings: Settings) -> bool:
    """Whether the settings of a model are for torch: with a GPU, or without compiled kernels."""
    if may_be_gpu(settings.device) or settings.isa == "none":
        return True
    from embedwell_models.cpu_backend import library  # with numpy, which nothing else needs here

    return library.best_isa("float32") is None
