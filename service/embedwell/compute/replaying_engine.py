"""Resubmit the jobs of an engine that died, except for texts that crashed it."""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Protocol

import numpy as np

from embedwell.engine.wire.engine_state import SharedCounters
from embedwell.engine.wire.messages import EngineDescription, Job, Result, TokenIds
from embedwell.errors import (
    EngineCrash,
    EngineDied,
    EngineUnavailable,
    EngineUnresponsive,
    reindexed,
)

log = logging.getLogger(__name__)

_QUARANTINE_SECONDS = 600.0
_MAX_TEXTS = 64  # quarantined texts of each HTTP process
_RETRY_SECONDS = 0.2
_MAX_CRASHES = 2  # of a text computed alone; a single one may be a coincidence, such as a kill


class Quarantine:
    """Texts that crashed an engine; no HTTP process submits them again.

    Hashes of the latest 64 texts of each process are stored for ten minutes. They are in shared
    memory, because a client's next attempt may reach another process.
    """

    def __init__(
        self, counters: SharedCounters, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._counters, self._clock = counters, clock
        self._added = counters.allocate()
        self._added_by_all = counters.column(self._added)
        self._hashes, self._ends = counters.allocate(_MAX_TEXTS), counters.allocate(_MAX_TEXTS)
        self._loaded, self._end_by_hash = 0.0, dict[float, float]()

    @property
    def added(self) -> int:
        """Number of texts quarantined since the start, in all processes."""
        return int(sum(self._added_by_all))

    def add(self, job: Job) -> None:
        """Quarantine the texts of a job."""
        counters = self._counters.row
        for ids in job.texts_ids:
            slot = int(counters[self._added]) % _MAX_TEXTS
            counters[self._hashes + slot] = _hash(job, ids)
            counters[self._ends + slot] = self._clock() + _QUARANTINE_SECONDS
            counters[self._added] += 1

    def find(self, job: Job) -> int | None:
        """Return the index of the first quarantined text of a job, or None."""
        if self._loaded != (added := sum(self._added_by_all)):
            self._loaded, self._end_by_hash = added, self._load()
        if not self._end_by_hash:  # the usual case, without computing hashes
            return None
        now = self._clock()
        self._end_by_hash = {text: end for text, end in self._end_by_hash.items() if end > now}
        hashes = (_hash(job, ids) for ids in job.texts_ids)
        return next((i for i, text in enumerate(hashes) if text in self._end_by_hash), None)

    def _load(self) -> dict[float, float]:
        read = self._counters.slots_of_all_rows
        return dict(zip(read(self._hashes, _MAX_TEXTS), read(self._ends, _MAX_TEXTS), strict=True))


def _hash(job: Job, ids: TokenIds) -> float:
    """Hash a text to 48 bits, which a float64 of the shared counters represents exactly."""
    text = f"{job.output} ".encode() + ids.tobytes()
    return float(int.from_bytes(blake2b(text, digest_size=6).digest()))


class ReconnectingEngine(Protocol):
    """Interface of embedwell.compute.engine_session."""

    @property
    def description(self) -> EngineDescription | None: ...
    def submit(self, job: Job, timeout: float) -> Awaitable[Result]: ...
    def wait_connected(self, timeout: float, max_downtime: float = ...) -> Awaitable[None]: ...


class ReplayingEngine:
    """Submits jobs to the engine, and again to its successor if it dies.

    A job that was waiting when the engine died is resubmitted unchanged, until its timeout. A job
    that was being computed may have caused the crash, so its texts are computed one at a time,
    while the engine computes nothing else. A text that crashes the engine twice more is
    quarantined: it is rejected for ten minutes. Crashes while a text waited do not count, because
    other texts caused them.
    """

    def __init__(self, engine: ReconnectingEngine, counters: SharedCounters) -> None:
        """counters: count replayed jobs and quarantined texts."""
        self._engine, self._quarantine = engine, Quarantine(counters)
        self._counters, self._replayed_slot = counters, counters.allocate()

    @property
    def description(self) -> EngineDescription | None:
        """Description of the current engine."""
        return self._engine.description

    @property
    def replayed_jobs(self) -> int:
        """Number of times that an engine died before a job was done, in all processes."""
        return int(self._counters.total(self._replayed_slot))

    @property
    def quarantined_texts(self) -> int:
        """Number of texts that crashed an engine, in all processes."""
        return self._quarantine.added

    async def submit(self, job: Job, timeout: float) -> Result:
        """Compute a job; raises EncodingFailed (EngineCrash), EngineUnavailable or TimeoutError."""
        try:
            return await self._submit(job, timeout)
        except EngineUnavailable as error:
            return await self._replay(job, error, job.created_at + timeout)

    def _submit(self, job: Job, timeout: float) -> Awaitable[Result]:
        index = self._quarantine.find(job)
        if index is not None:
            raise EngineCrash(
                "this input crashed the engine before; do not send it again", index=index
            )
        return self._engine.submit(job, timeout)

    async def _replay(self, job: Job, error: EngineUnavailable, deadline: float) -> Result:
        while True:
            if isinstance(error, EngineUnresponsive):
                raise error
            if isinstance(error, EngineDied):
                self._counters.row[self._replayed_slot] += 1
                if error.computing:
                    return await self._one_by_one(job, deadline)
            await self._engine.wait_connected(_remaining(deadline))
            try:
                return await self._submit(job, _remaining(deadline))
            except EngineUnavailable as next_error:
                error = next_error

    async def _one_by_one(self, job: Job, deadline: float) -> Result:
        results = []
        for index in range(len(job.texts_ids)):
            row = job.texts_ids.part(index, index + 1)
            counts = job.prompt_token_counts[index : index + 1]
            single = replace(job, texts_ids=row, prompt_token_counts=counts, exclusive=True)
            with reindexed([index]):
                results.append(await self._submit_exclusively(single, deadline))
        return _concatenate(results)

    async def _submit_exclusively(self, job: Job, deadline: float) -> Result:
        crashes = 0
        while crashes < _MAX_CRASHES:
            # There is no time limit: after a 503 a gateway would send the text to another server.
            await self._engine.wait_connected(_remaining(deadline), math.inf)
            try:
                return await self._submit(job, _remaining(deadline))
            except EngineDied as error:
                crashes += error.computing
            except EngineUnavailable:  # the engine does not respond, and is about to be replaced
                await asyncio.sleep(_RETRY_SECONDS)
        self._quarantine.add(job)
        log.error(
            "a text of %d tokens crashed the engine; it is rejected for ten minutes", job.tokens
        )
        raise EngineCrash(
            "the engine crashed while it computed this input; do not send it again", index=0
        )


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
        row_counts=[count for result in results for count in result.row_counts],
    )
