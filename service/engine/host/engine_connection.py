"""An HTTP process's connection to whichever engine runs."""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable

import numpy as np

from service.engine.host.client import Client
from service.engine.host.rate import Rate
from service.engine.protocol.fd_handoff import Connection
from service.engine.protocol.messages import POOLED, Description, Job, Result
from service.engine.protocol.progress import Liveness
from service.errors import EncodingFailed, EngineLost
from service.process.shared_counters import SharedCounters, Slot

log = logging.getLogger(__name__)

_BEAT = 1.0  # seconds between two proofs that an idle engine embeds
_EVER = 1e9  # seconds
_RESTART = 60.0  # seconds that an engine which died may take to be there again


class EngineConnection:
    """Gives jobs to the engine; those that wait when it dies fail with EngineDied."""

    def __init__(
        self,
        ask: Callable[[], Connection],
        counters: SharedCounters,
        on_ready: Callable[[Description], None] = lambda _: None,
        on_stall: Callable[[], None] = lambda: None,
        beat: float = _BEAT,
    ) -> None:
        """ask: requests a connection to the engine; may raise OSError. counters: of all processes.

        on_ready: called when an engine embeds for the first time. on_stall: when it hangs, again
        and again. beat: seconds that count as one of those in which an engine is watched.
        """
        self._ask, self._on_ready, self._on_stall = ask, on_ready, on_stall
        self.counters = counters
        self._client: Client | None = None
        self._connected, self._lost = asyncio.Event(), -math.inf
        self._beat, self._liveness = beat, Liveness(counters)
        self.generation = 0  # how many engines had been started before the one that is known
        self._proven = False  # it has embedded, and not failed to since
        self.rate = Rate()
        self.description: Description | None = None

    def expect_engine(self) -> None:
        """Let requests wait for the first engine as for one that is started again."""
        self._lost = time.monotonic()

    @property
    def embeds(self) -> bool:
        """Whether the engine embeds: it has, and has made progress lately."""
        return self._proven and not self._liveness.silent

    @property
    def restarts(self) -> int:
        """How often an engine was started again."""
        return int(self.counters.total(Slot.ENGINE_RESTARTS))

    async def submit(self, job: Job, timeout: float) -> Result:
        """The vectors of a job; raises EngineLost where no engine is ready, or TimeoutError."""
        if self._client is None:
            raise EngineLost("no engine is ready; try again shortly", retry=2)
        if self._liveness.silent:
            raise EngineLost("the engine does not respond; try again shortly", retry=5)
        return await self._answer(self._client, job, timeout)

    async def connected(self, timeout: float, patience: float = _RESTART) -> None:
        """Wait until an engine takes jobs, if one that did has died; raises TimeoutError.

        EngineLost where none was ever there, or none has been for so many seconds.
        """
        left = self._lost + patience - time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, min(timeout, left))):
                await self._connected.wait()
        except TimeoutError:
            if timeout < left:
                raise
            raise EngineLost("no engine is ready; try again shortly", retry=2) from None

    def computed_tokens(self, job: Job) -> int:
        """Tokens that are computed for a job: all."""
        return job.tokens

    async def run(self) -> None:
        """Attend to one engine after the other until cancelled."""
        while True:
            try:
                client = await Client.connect(self._ask(), self._disconnect)
            except OSError as error:  # no descriptor is free, say: that passes
                log.error("cannot connect to the engine: %s", error)
                await asyncio.sleep(_BEAT)
            else:
                await self._attend(client)

    async def _attend(self, client: Client) -> None:
        watching = asyncio.create_task(self._watch(client))
        try:
            await self._prove(client)
        except EngineLost:
            pass
        finally:
            watching.cancel()
            self._disconnect()
            client.close(EngineLost("the engine died; try again", retry=2))

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client, self._proven, self._lost = None, False, time.monotonic()
            self._connected.clear()

    async def _prove(self, client: Client) -> None:
        description = await client.describe()
        self._client, self.description, self.rate = client, description, Rate()
        self.generation = self.restarts
        self._connected.set()
        greeted = False
        while True:
            try:
                await self._answer(client, Job(POOLED, [np.zeros(2, dtype=np.int32)]), _EVER)
            except EncodingFailed as error:
                self._proven = False
                log.error("the engine cannot embed: %s", error)
            else:
                if not greeted:
                    self._on_ready(description)
                greeted = True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(client.lost.wait(), self._beat)

    async def _watch(self, client: Client) -> None:
        self._liveness = Liveness(self.counters)
        while True:
            await asyncio.sleep(self._beat)
            self._liveness.look(client.busy)
            if self._liveness.hangs:
                self._on_stall()

    async def _answer(self, client: Client, job: Job, timeout: float) -> Result:
        result = await client.submit(job, timeout)
        self.rate.note(result.rate)
        self._proven = True
        return result
