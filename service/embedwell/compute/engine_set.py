"""The engines of a model on several devices, used as one."""

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable, Mapping, Sequence

from embedwell.compute.engine_session import MAX_RESTART_SECONDS, EngineSession
from embedwell.engine.wire.engine_state import ModelState
from embedwell.engine.wire.messages import EngineDescription, Job, Result


class SummedRate:
    """Tokens per second of several saturated engines; see ReportedRate."""

    def __init__(self, engines: Sequence[EngineSession]) -> None:
        self._engines = engines

    @property
    def latest(self) -> float:
        """The sum of the last reports of the engines that accept jobs, or of all if none does."""
        accepting = [engine.rate.latest for engine in self._engines if engine.accepts_jobs]
        return sum(accepting or [engine.rate.latest for engine in self._engines])

    @property
    def reliable_rate(self) -> float:
        """The largest reliable rate of an engine, since one engine computes a job."""
        return max(engine.rate.reliable_rate for engine in self._engines)


class EngineSet:
    """Submits each job to the engine with the fewest tokens outstanding, in all HTTP processes.

    An engine that is down, loads or does not respond gets none. The interface is that of an
    EngineSession.

    engines: the engines by the names of their devices.
    counters: the first engine's shared counters, which are also those of the model.
    """

    def __init__(self, engines: Mapping[str, EngineSession]) -> None:
        self.engines = engines
        self._engines = [*engines.values()]
        self.counters = self._engines[0].counters
        self._tokens = [engine.counters.allocate(gauge=True) for engine in self._engines]
        self.rate = SummedRate(self._engines)

    @property
    def state(self) -> ModelState:
        """The state of an engine that runs, if one does."""
        return min((engine.state for engine in self._engines), key=lambda state: state.engine)

    @property
    def ready(self) -> bool:
        """Whether an engine embeds and responds."""
        return any(engine.ready for engine in self._engines)

    @property
    def connected(self) -> bool:
        """Whether an engine has loaded the model and accepts jobs."""
        return any(engine.connected for engine in self._engines)

    @property
    def restarts(self) -> int:
        """Number of restarts of all engines."""
        return sum(engine.restarts for engine in self._engines)

    @property
    def description(self) -> EngineDescription | None:
        """The description of the first engine that has one."""
        return next(filter(None, (engine.description for engine in self._engines)), None)

    def submit(self, job: Job, timeout: float) -> Awaitable[Result]:
        """Compute a job; raises EncodingFailed, EngineUnavailable, ShuttingDown or TimeoutError."""
        accepting = [index for index, engine in enumerate(self._engines) if engine.accepts_jobs]
        if accepting:
            return self._submit(min(accepting, key=self._outstanding_tokens), job, timeout)
        # One that is connected does not respond. Its error differs from that of one that is down.
        connected = [engine for engine in self._engines if engine.connected]
        unusable = (connected or self._engines)[0]
        return unusable.submit(job, timeout)

    async def wait_connected(
        self, timeout: float, max_downtime: float = MAX_RESTART_SECONDS
    ) -> None:
        """Wait until an engine accepts jobs; see EngineSession.wait_connected."""
        if not self.connected:
            await _first(engine.wait_connected(timeout, max_downtime) for engine in self._engines)

    async def load(self, timeout: float) -> None:
        """Request all engines, and wait until one is loaded; raises EngineUnavailable if late."""
        await _first(engine.load(timeout) for engine in self._engines)

    async def unload(self, timeout: float) -> None:
        """Request that all engines end, and wait for it; raises TimeoutError."""
        await asyncio.gather(*(engine.unload(timeout) for engine in self._engines))

    def _outstanding_tokens(self, index: int) -> float:
        return self._engines[index].counters.total(self._tokens[index])

    async def _submit(self, index: int, job: Job, timeout: float) -> Result:
        engine = self._engines[index]
        row, slot, tokens = engine.counters.row, self._tokens[index], job.tokens
        row[slot] += tokens
        try:
            return await engine.submit(job, timeout)
        finally:
            row[slot] -= tokens


EngineHandle = EngineSession | EngineSet
"""The engine that computes the jobs of a model, or its engines on several devices."""


async def _first(waits: Iterable[Coroutine[None, None, None]]) -> None:
    """Wait until one of several waits ends without an error; raise an error if all fail."""
    pending = {asyncio.create_task(wait) for wait in waits}
    try:
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            errors = [task.exception() for task in done]
            if None in errors:
                return
        raise next(filter(None, errors))
    finally:
        for task in pending:
            task.cancel()
