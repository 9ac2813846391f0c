"""The stores of batches, and the runner that computes them while clients need no engine."""

import asyncio
import contextlib
import errno
import fcntl
import itertools
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from embedwell.compute.served_model import ServedModel
from embedwell.compute.work_queue import access_files_in_thread
from embedwell.errors import Forbidden, InternalError, ServiceError
from embedwell.http.error_responses import UNEXPECTED
from embedwell.settings.settings import BATCH_LOCK_FILE, Settings
from embedwell_batches.batch import FINAL, BatchLimits, Status
from embedwell_batches.batch_store import BatchStore
from embedwell_batches.batch_work import BatchWork
from embedwell_batches.file_store import FileStore
from embedwell_batches.folder import DiskSpace
from embedwell_batches.json_lines import RequestLine
from embedwell_batches.route_calls import TEMPORARY, Result, RouteCalls, compute_group

log = logging.getLogger(__name__)

_POLL = 0.5  # seconds between searches for a batch, and attempts to become the runner
_SWEEP = 600.0  # seconds between searches for expired batches and files
_PAUSE = 10.0  # seconds to wait after a fault, and the longest after a rejected request
_TURN = 2.0  # seconds of work on one batch; then those that are cancelled or expired are ended
_SHARED_FAULTS = {  # error numbers of faults that no batch causes
    *(errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM),
}
_GROUP_SECONDS = 0.1  # seconds of work that the engine gets at a time
_TOKEN_BYTES = 4  # approximate bytes per token of English text
_MIN_GROUP_BYTES, _MAX_GROUP_BYTES = 1 << 12, 1 << 22
_DAY = 86400  # seconds
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
        self._lock, self._batches, self._files = folder / BATCH_LOCK_FILE, batches, files
        self._calls = calls
        self._limits, self._busy, self._tokens_per_second = limits, busy, tokens_per_second
        self._swept = -_SWEEP
        # When batches go on: those with a request that was rejected, and those with a fault.
        self._refused: dict[str, float] = {}
        self._faulty: dict[str, float] = {}

    async def run(self) -> None:
        """Compute batches until cancelled; an unfinished batch is resumed later."""
        async with self._alone():
            while True:
                try:
                    if not await self._work_on_next():
                        await asyncio.sleep(_POLL)
                except OSError as error:  # such as a full disk; saved data is not lost
                    log.error("batches wait for some seconds: %s", error)
                    await asyncio.sleep(_PAUSE)

    async def _work_on_next(self) -> bool:
        """Work on a batch for a while; return False if all wait.

        Raises OSError for a fault that stops all batches.
        """
        try:
            await access_files_in_thread(self._sweep)
            id = await access_files_in_thread(self._next)
        except Exception:
            log.exception("the folder of batches cannot be read; trying again in some seconds")
            await asyncio.sleep(_PAUSE)
            return False
        if id is None:
            return False
        try:
            await self._work_on(id)
        except Exception as error:
            if _stops_all(error):
                raise
            log.exception("batch %s cannot be saved; trying again in some seconds", id)
            self._faulty[id] = time.monotonic() + _PAUSE
        return True

    def _next(self) -> str | None:
        """Return the oldest batch that ends early, else the oldest that need not wait."""
        now, unfinished = time.monotonic(), self._batches.unfinished()
        ready = [(id, expiry) for id, expiry in unfinished if self._faulty.get(id, 0.0) <= now]
        ending = (id for id, expiry in ready if self._early_end(id, expiry) is not None)
        computable = (id for id, _ in ready if self._refused.get(id, 0.0) <= now)
        return next(itertools.chain(ending, computable), None)

    async def _work_on(self, id: str) -> None:
        stored = await access_files_in_thread(self._batches.load_stored, id)
        work = BatchWork(stored, self._batches, self._files, self._limits)
        try:
            await self._advance(work)
        except ServiceError as error:
            if error.status in TEMPORARY:
                self._refused[id] = time.monotonic() + min(error.retry_after or 1.0, _PAUSE)
                return
            await access_files_in_thread(work.fail, error.code, error.message)
        except Exception as error:
            if _stops_all(error):
                raise
            log.exception("batch %s fails", id)
            await access_files_in_thread(work.fail, InternalError.code, UNEXPECTED)
        await access_files_in_thread(self._batches.note_changed, id)
        if work.batch.status in FINAL:
            self._refused.pop(id, None)
            self._faulty.pop(id, None)
            log.info("batch %s: %s", id, work.batch.status)

    async def _advance(self, work: BatchWork) -> None:
        """End a batch, or compute some of its requests."""
        if await access_files_in_thread(work.publish_end):
            return
        early = self._early_end(work.batch.id, work.batch.expires_at)
        if early is not None:
            await access_files_in_thread(work.finish, early)
        elif await access_files_in_thread(work.start):
            await self._compute(work)

    async def _compute(self, work: BatchWork) -> None:
        """Compute requests until the batch ends early, or its turn ends."""
        end = time.monotonic() + _TURN
        while time.monotonic() < end:
            if self._busy():
                await asyncio.sleep(_IDLE_POLL)
                continue
            requests = await access_files_in_thread(work.next_requests, self._group_bytes())
            if not requests:
                await access_files_in_thread(work.finish, "completed")
                return
            if not await self._compute_group(work, requests):
                return

    async def _compute_group(self, work: BatchWork, requests: Sequence[RequestLine]) -> bool:
        """Compute requests; return False if the batch ends early meanwhile."""

        async def record(results: Sequence[Result]) -> None:
            await access_files_in_thread(work.record, results)

        batch = work.batch
        computing = asyncio.ensure_future(
            compute_group(self._calls, batch.endpoint, requests, record)
        )
        try:
            while not computing.done() and self._early_end(batch.id, batch.expires_at) is None:
                await asyncio.wait([computing], timeout=_POLL)
        finally:
            computing.cancel()  # unfinished requests count as not computed
            await asyncio.wait([computing])
        if computing.cancelled():
            return False
        computing.result()
        return True

    def _early_end(self, id: str, expiry: int) -> Status | None:
        if self._batches.cancelled_at(id) is not None:
            return "cancelled"
        return "expired" if time.time() >= expiry else None

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


def _stops_all(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in _SHARED_FAULTS


class BatchService:
    """The stores of files and batches in a folder, and the runner that computes them.

    endpoints: the paths that a batch can be for.
    run: computes until it is cancelled.
    """

    def __init__(
        self, folder: Path, settings: Settings, models: Sequence[ServedModel], calls: RouteCalls
    ) -> None:
        """calls: calls the routes that a batch can be for."""
        limits = BatchLimits(
            settings.batch_max_file_bytes,
            settings.batch_max_bytes,
            settings.max_body_bytes,
            settings.batch_retention * _DAY,
        )
        space = DiskSpace(folder, limits.folder_bytes)
        self.files = FileStore(folder / "files", limits, space)
        self.batches = BatchStore(folder / "batches", self.files, limits)
        self.endpoints = calls.paths
        self.run = BatchRunner(
            *(folder, self.batches, self.files, calls),
            limits=limits,
            busy=lambda: any(model.admission.queued_tokens for model in models),
            tokens_per_second=lambda: max(model.engine.rate.latest for model in models),
        ).run


def require_enabled(service: BatchService | None) -> BatchService:
    """Return the service; raise Forbidden if the server computes no batches."""
    if service is None:
        raise Forbidden(
            "batches are disabled; set EMBEDWELL_BATCH_FOLDER to enable them",
            code="batches_disabled",
        )
    return service
