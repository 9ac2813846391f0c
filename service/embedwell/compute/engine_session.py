"""The current engine of an HTTP process, with a new connection whenever it is replaced."""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Coroutine

import numpy as np

from embedwell.compute.engine_connection import EngineConnection
from embedwell.compute.liveness import Liveness
from embedwell.engine.wire.engine_sockets import EngineSocket
from embedwell.engine.wire.engine_state import (
    CounterSlot,
    EngineState,
    ModelState,
    SharedCounters,
)
from embedwell.engine.wire.messages import EngineDescription, Job, Result
from embedwell.errors import (
    EncodingFailed,
    EngineUnavailable,
    EngineUnresponsive,
    ShuttingDown,
)
from embedwell_models.encoder.batch import FlatRows
from embedwell_models.outputs.names import DENSE, MULTI

log = logging.getLogger(__name__)

_MIN_RATE_CHANGES = 5  # after five, a third of the moving average is still the initial value
_MAX_RATE_AGE = 300.0  # seconds, after which the speed may have changed
_PROBE_INTERVAL = 1.0  # seconds between probes while somebody asks whether the engine is ready
_NO_TIMEOUT = 1e9  # seconds
MAX_RESTART_SECONDS = 60.0
_UNLOAD_CHECK_INTERVAL = 0.05  # seconds
_LOAD_CHECK_INTERVAL = 1.0  # seconds between the checks of an engine that loads
_FAILED_SECONDS = 30.0  # seconds until a model that could not be loaded is tried again
_PROBE_TEXT = FlatRows(np.zeros(2, dtype=np.int32), [2])


class ReportedRate:
    """Tokens per second of a saturated engine.

    latest: the last report; 0 if unknown. An engine starts with the rate of a single cold batch of
        equally long texts; only full batches update it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._changes, self._changed = clock, -1, 0.0
        self.latest = 0.0

    def reset(self) -> None:
        """Forget the reports, which were those of an earlier engine."""
        self.latest, self._changes = 0.0, -1

    def update(self, rate: float) -> None:
        """Record the rate reported with a result."""
        if rate != self.latest:
            self.latest, self._changed = rate, self._clock()
            self._changes += 1

    @property
    def reliable_rate(self) -> float:
        """The latest rate if it was measured several times under load and recently, else 0."""
        recent = self._clock() - self._changed < _MAX_RATE_AGE
        return self.latest if recent and self._changes >= _MIN_RATE_CHANGES else 0.0


class EngineSession:
    """Submits jobs to the current engine; unfinished jobs fail with EngineDied when it dies."""

    def __init__(  # noqa: PLR0913 - the last ones by name
        self,
        connect: Callable[[], EngineSocket],
        counters: SharedCounters,
        on_ready: Callable[[EngineDescription], None] = lambda _: None,
        on_stall: Callable[[], None] = lambda: None,
        probe_interval: float = _PROBE_INTERVAL,
        *,
        on_wanted: Callable[[], None] = lambda: None,
        on_unwanted: Callable[[], None] = lambda: None,
    ) -> None:
        """connect: opens a connection to the engine; may raise OSError.

        counters: shared counters.
        on_ready: called after the first result of each engine.
        on_stall: called after each check that finds the engine hung.
        probe_interval: seconds between probes, and between checks, which count it as one second.
            There are checks only while a job waits for its result.
        on_wanted: called, perhaps often, while a request waits for an engine that is not loaded.
        on_unwanted: called to have the engine unloaded.
        """
        self._connect, self._on_ready, self._on_stall = connect, on_ready, on_stall
        self._on_wanted, self._on_unwanted = on_wanted, on_unwanted
        self.state = ModelState(counters)
        self.counters = counters
        self._connection: EngineConnection | None = None
        self._connected, self._lost_at = asyncio.Event(), -math.inf
        self._abandoned = False
        self._probe_interval, self._liveness = probe_interval, Liveness(counters)
        self._probe_wanted = asyncio.Event()
        self._next_check: asyncio.TimerHandle | None = None  # of the liveness
        self.restarts_when_connected = 0  # engine restarts before the current engine
        self._embeds = False  # whether the last job or probe succeeded
        self.rate = ReportedRate()
        self.description: EngineDescription | None = None

    def abandon(self) -> None:
        """Fail all requests without an engine, because no other engine will be started."""
        self._abandoned = True
        self._connected.set()

    @property
    def ready(self) -> bool:
        """Whether the engine embeds and responds, as far as is known; a probe finds out more."""
        self._probe_wanted.set()
        return self._embeds and not self._liveness.unresponsive

    @property
    def connected(self) -> bool:
        """Whether an engine has loaded the model and accepts jobs."""
        return self._connection is not None

    @property
    def accepts_jobs(self) -> bool:
        """Whether an engine has loaded the model and responds."""
        return self._connection is not None and not self._liveness.unresponsive

    @property
    def restarts(self) -> int:
        """Number of engine restarts."""
        return int(self.counters.total(CounterSlot.ENGINE_RESTARTS))

    def submit(self, job: Job, timeout: float) -> Coroutine[None, None, Result]:
        """Compute a job; raises EncodingFailed, EngineUnavailable, ShuttingDown or TimeoutError."""
        if self._connection is None:
            self._check_abandoned()
            raise _no_engine()
        if self._liveness.unresponsive:
            raise EngineUnresponsive(
                "the engine does not respond; try again in a few seconds", retry_after=5
            )
        return self._submit(self._connection, job, timeout)

    async def wait_connected(
        self, timeout: float, max_downtime: float = MAX_RESTART_SECONDS
    ) -> None:
        """Wait until an engine accepts jobs.

        Raises TimeoutError, EngineUnavailable and ShuttingDown.

        Waits for a restarting engine until there was none for `max_downtime` seconds. Requests an
        engine that is not loaded, unless loading takes longer than `timeout`.
        """
        if self.connected:
            return
        self._check_abandoned()
        if self._is_unloaded or self._loads_anew:
            await self._wait_loaded(timeout)
        else:
            await self._wait_restarted(timeout, max_downtime)
        self._check_abandoned()

    def _check_abandoned(self) -> None:
        if self._abandoned and not self.connected:
            raise ShuttingDown(
                "the server has lost its first process and ends; try again", retry_after=1
            )

    @property
    def _is_unloaded(self) -> bool:
        return self.state.engine is not EngineState.RUNNING

    @property
    def _loads_anew(self) -> bool:
        """Whether the watcher started the engine after this process lost the previous one."""
        return self.state.since > max(0.0, self._lost_at)

    async def _wait_restarted(self, timeout: float, max_downtime: float) -> None:
        if self._lost_at < 0 and self.state.was_loaded:
            self._lost_at = time.monotonic()  # this process is newer than the engine
        remaining = self._lost_at + max_downtime - time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, min(timeout, remaining))):
                await self._connected.wait()
        except TimeoutError:
            if timeout < remaining:
                raise
            raise _no_engine() from None

    async def load(self, timeout: float) -> None:
        """Request the model, and wait until it is loaded; raises EngineUnavailable if too late."""
        if not self.connected:
            await self._wait_loaded(timeout)

    async def unload(self, timeout: float) -> None:
        """Request that the model is unloaded, and wait for it; raises TimeoutError."""
        self._on_unwanted()
        async with asyncio.timeout(timeout):
            while self.connected or not self._is_unloaded:
                await asyncio.sleep(_UNLOAD_CHECK_INTERVAL)

    async def _wait_loaded(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        self._request_load()
        while self.state.seconds_until_loaded <= timeout:
            if (remaining := deadline - time.monotonic()) <= 0:
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(_LOAD_CHECK_INTERVAL, remaining)):
                    await self._connected.wait()
                    return
            self._request_load()
        seconds = self.state.seconds_until_loaded
        raise EngineUnavailable(
            f"the model is not loaded yet; try again in about {seconds} s", retry_after=seconds
        )

    def _request_load(self) -> None:
        """Request the engine unless it loads; raises EngineUnavailable if it failed recently."""
        state = self.state.engine
        if state is EngineState.FAILED and self.state.seconds < _FAILED_SECONDS:
            raise EngineUnavailable(
                "the model could not be loaded; see the reason in the server's log",
                retry_after=_FAILED_SECONDS - self.state.seconds,
            )
        if self._is_unloaded:
            self._on_wanted()

    async def run(self) -> None:
        """Connect to one engine after another until cancelled or abandoned."""
        while not self._abandoned:
            try:
                connection = await EngineConnection.connect(self._connect(), self._disconnect)
            except OSError as error:  # can be temporary, such as too many open files
                log.error("cannot connect to the engine: %s", error)
                await asyncio.sleep(_PROBE_INTERVAL)
            else:
                await self._use(connection)

    async def _use(self, connection: EngineConnection) -> None:
        self._liveness = Liveness(self.counters)
        try:
            await self._probe(connection)
        except EngineUnavailable:
            pass
        finally:
            self._disconnect()
            connection.close(EngineUnavailable("the engine died; try again", retry_after=2))

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection, self._embeds, self._lost_at = None, False, time.monotonic()
            self._probe_wanted.set()  # to notice that the connection is lost
            if not self._abandoned:
                self._connected.clear()

    async def _probe(self, connection: EngineConnection) -> None:
        description = await connection.wait_loaded()
        self._connection, self.description = connection, description
        self.rate.reset()  # not another one: the admission of requests holds this one
        self.restarts_when_connected = self.restarts
        self._connected.set()
        reported_ready = False
        output = MULTI if MULTI in description.outputs else DENSE
        while True:
            self._probe_wanted.clear()
            try:
                await self._submit(connection, Job(output, _PROBE_TEXT), _NO_TIMEOUT)
            except EncodingFailed as error:
                self._embeds = False
                log.error("the engine cannot embed: %s", error)
            else:
                if not reported_ready:
                    self._on_ready(description)
                reported_ready = True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(connection.lost.wait(), self._probe_interval)
            if self._embeds:  # otherwise the probes go on until it does
                await self._probe_wanted.wait()

    def _schedule_check(self) -> None:
        if self._next_check is None:
            loop = asyncio.get_running_loop()
            self._next_check = loop.call_later(self._probe_interval, self._check_liveness)

    def _check_liveness(self) -> None:
        self._next_check = None
        busy = self._connection is not None and self._connection.busy
        self._liveness.check(busy)
        if busy:
            self._schedule_check()
        if self._liveness.hung:
            self._on_stall()

    async def _submit(self, connection: EngineConnection, job: Job, timeout: float) -> Result:
        self._schedule_check()
        try:
            result = await connection.submit(job, timeout)
        except (EncodingFailed, TimeoutError, asyncio.CancelledError):
            self._probe_wanted.set()  # the engine may be the reason, and the next job may not come
            raise
        self.rate.update(result.rate)
        self._embeds = True
        self._liveness.note_result()
        return result


def _no_engine() -> EngineUnavailable:
    return EngineUnavailable("no engine is ready; try again in a few seconds", retry_after=2)
