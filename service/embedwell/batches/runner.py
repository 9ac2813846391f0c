"""Compute batches, one after the other, while the engine has no work from clients."""

import asyncio
import contextlib
import fcntl
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from embedwell.batches.batch import Batch, Status
from embedwell.batches.batch_store import BatchStore
from embedwell.batches.batch_work import BatchWork
from embedwell.batches.file_store import FileStore
from embedwell.batches.ids import LOCK
from embedwell.batches.limits import BatchLimits
from embedwell.batches.request_lines import RequestLine
from embedwell.batches.route_calls import RouteCalls, RouteResponse
from embedwell.errors import ServiceError

R = TypeVar("R")

log = logging.getLogger(__name__)

_POLL = 0.5  # seconds between searches for a batch, and attempts to become the runner
_SWEEP = 600.0  # seconds between searches for expired batches and files
_PAUSE = 10.0  # seconds to wait after an error that no request caused
_GROUP_SECONDS = 0.1  # seconds of work that the engine gets at a time
_TOKEN_BYTES = 4  # approximate bytes per token of English text
_MIN_GROUP_BYTES, _MAX_GROUP_BYTES = 1 << 12, 1 << 22
_IDLE_POLL = 0.01  # seconds between checks whether clients wait for the engine


class BatchRunner:
    """Computes the batches of a folder in the one process that holds the folder's lock."""

    def __init__(  # noqa: PLR0913 - the last two by name
        self,
        folder: Path,
        batches: BatchStore,
        files: FileStore,
        calls: RouteCalls,
        *,
        limits: BatchLimits,
        busy: Callable[[], bool],
        tokens_per_second: Callable[[], float],
    ) -> None:
        """busy: returns whether clients wait for the engine.

        tokens_per_second: returns the engine's speed; 0 if unknown.
        """
        self._lock, self._batches, self._files = folder / LOCK, batches, files
        self._calls = calls
        self._limits, self._busy, self._tokens_per_second = limits, busy, tokens_per_second
        self._swept = -_SWEEP

    async def run(self) -> None:
        """Compute batches until cancelled; an unfinished batch is resumed later."""
        async with self._alone():
            while True:
                try:
                    if not await self._compute_next():
                        await asyncio.sleep(_POLL)
                except Exception:  # such as a full disk; saved data is not lost
                    log.exception("batches cannot be computed; trying again in a few seconds")
                    await asyncio.sleep(_PAUSE)

    async def _compute_next(self) -> bool:
        """Compute the oldest batch; return False if there is none."""
        await _in_thread(self._sweep)
        stored = await _in_thread(self._batches.next)
        if stored is not None:
            await self._compute(BatchWork(stored, self._batches, self._files, self._limits))
        return stored is not None

    async def _compute(self, work: BatchWork) -> None:
        try:
            if await _in_thread(work.start):
                log.info("batch %s: %d requests", work.batch.id, work.batch.request_counts.total)
                status = await self._send(work)
                await _in_thread(partial(work.finish, status))
        except ServiceError as error:
            await _in_thread(partial(work.fail, error.code, error.message))
        log.info("batch %s: %s", work.batch.id, work.batch.status)

    async def _send(self, work: BatchWork) -> Status:
        """Send all requests, or as many as the time limit allows; return how the batch ends."""
        while True:
            requests = await _in_thread(partial(work.next_requests, self._group_bytes()))
            if not requests:
                return "completed"
            computing = asyncio.ensure_future(self._respond(work.batch.endpoint, requests))
            try:
                while not computing.done():
                    if (early := self._early_end(work.batch)) is not None:
                        return early
                    await asyncio.wait([computing], timeout=_POLL)
            finally:
                computing.cancel()  # unfinished requests count as not computed
            results = zip(requests, computing.result(), strict=True)
            await _in_thread(partial(work.record, [*results]))

    async def _respond(self, path: str, requests: Sequence[RequestLine]) -> list[RouteResponse]:
        """Compute requests when no client waits for the engine."""
        while self._busy():
            await asyncio.sleep(_IDLE_POLL)
        return await asyncio.gather(*[self._calls.post(path, line.body) for line in requests])

    def _early_end(self, batch: Batch) -> Status | None:
        if self._batches.cancelled_at(batch.id) is not None:
            return "cancelled"
        return "expired" if time.time() >= batch.expires_at else None

    def _group_bytes(self) -> int:
        # More work would make small requests of clients wait, or be rejected.
        work = int(_GROUP_SECONDS * self._tokens_per_second()) * _TOKEN_BYTES
        return min(max(work, _MIN_GROUP_BYTES), _MAX_GROUP_BYTES)

    @contextlib.asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        with self._lock.open("wb") as file:  # the end of the process unlocks it, even a kill
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    await asyncio.sleep(_POLL)
                else:
                    break
            yield

    def _sweep(self) -> None:
        if time.monotonic() - self._swept >= _SWEEP:
            self._swept = time.monotonic()
            self._files.remove_expired()
            self._batches.remove_expired()


async def _in_thread(work: Callable[[], R]) -> R:
    """Read or write files in a thread; a cancellation waits for it before the lock is released."""
    future = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(future)
    finally:
        await asyncio.wait([future])
