"""Gives the jobs of an engine that died to the next one, but for texts of which it died."""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from service.engine.host.quarantine import Quarantine
from service.engine.protocol.messages import Description, Job, Result
from service.errors import EncodingFailed, EngineCrash, EngineDied, EngineLost
from service.process.shared_counters import SharedCounters

log = logging.getLogger(__name__)

_REPLAYS = 6  # of a job, and of a text that is tried alone
_PAUSE = 0.2  # seconds
_DEATHS = 2  # while nothing but a text is computed: once, somebody else may have ended the engine


class Engine(Protocol):
    """Whichever engine runs: see service.engine.host.engine_connection."""

    @property
    def description(self) -> Description | None: ...
    def computed_tokens(self, job: Job) -> int: ...
    def submit(self, job: Job, timeout: float) -> Awaitable[Result]: ...
    def connected(self, timeout: float, patience: float = ...) -> Awaitable[None]: ...


class Replay:
    """An engine that outlives its process: jobs are pure, so another process can compute them.

    A job that waited when the engine died goes to the next engine as it is. Any of those that were
    being computed may be why it died, so their texts are tried again one by one, each while nothing
    else is computed. A text with which the engine dies twice more is refused for ten minutes.
    """

    def __init__(self, engine: Engine, counters: SharedCounters) -> None:
        """counters: where replays and crashes are counted."""
        self._engine, self._quarantine = engine, Quarantine(counters)
        self._counters, self._replayed = counters, counters.allocate()

    @property
    def description(self) -> Description | None:
        """Of the engine that runs."""
        return self._engine.description

    @property
    def replayed(self) -> int:
        """How many jobs were given to another engine, in the whole server."""
        return int(self._counters.total(self._replayed))

    @property
    def crashed(self) -> int:
        """Of how many texts an engine died, in the whole server."""
        return self._quarantine.added

    def computed_tokens(self, job: Job) -> int:
        """Tokens that are computed for a job."""
        return self._engine.computed_tokens(job)

    async def submit(self, job: Job, timeout: float) -> Result:
        """The vectors of a job; raises EncodingFailed (EngineCrash), EngineLost or TimeoutError."""
        try:
            return await self._submit(job, timeout)
        except EngineLost as error:
            return await self._replay(job, error, job.begun + timeout)

    def _submit(self, job: Job, timeout: float) -> Awaitable[Result]:
        index = self._quarantine.find(job)
        if index is not None:
            raise EngineCrash("the engine died of this input before", index=index)
        return self._engine.submit(job, timeout)

    async def _replay(self, job: Job, error: EngineLost, deadline: float) -> Result:
        for _ in range(_REPLAYS):
            if isinstance(error, EngineDied):
                self._counters.row[self._replayed] += 1
                if error.computing:
                    return await self._one_by_one(job, deadline)
            await self._engine.connected(_remaining(deadline))
            try:
                return await self._submit(job, _remaining(deadline))
            except EngineLost as next_error:
                error = next_error
        raise error

    async def _one_by_one(self, job: Job, deadline: float) -> Result:
        results = []
        for index, row in enumerate(job.rows):
            skips = job.skips[index : index + 1]
            try:
                single = replace(job, rows=[row], skips=skips, exclusive=True)
                results.append(await self._submit_exclusively(single, deadline))
            except EncodingFailed as error:
                error.index = index
                raise
        return _concatenate(results)

    async def _submit_exclusively(self, job: Job, deadline: float) -> Result:
        replays = deaths = 0
        while replays < _REPLAYS and deaths < _DEATHS:
            # However long that takes: told to come again, a gateway would ask another server.
            await self._engine.connected(_remaining(deadline), math.inf)
            try:
                return await self._submit(job, _remaining(deadline))
            except EngineDied as died:
                replays, deaths = replays + 1, deaths + died.computing
            except EngineLost:  # it hangs, and another one is started soon
                await asyncio.sleep(_PAUSE)
        if deaths == _DEATHS:
            self._quarantine.add(job)
            log.error("the engine died of a text of %d tokens: it is refused now", job.tokens)
        raise EngineCrash("the engine died while it computed this input", index=0)


def _remaining(deadline: float) -> float:
    remaining = deadline - time.perf_counter()
    if remaining <= 0:
        raise TimeoutError
    return remaining


def _concatenate(results: Sequence[Result]) -> Result:
    return Result(
        np.concatenate([result.vectors for result in results]),
        queue_us=results[0].queue_us,
        compute_us=sum(result.compute_us for result in results),
        rate=results[-1].rate,
    )
