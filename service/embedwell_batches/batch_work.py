"""Compute one batch: read its requests, write its results, and save its state."""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from embedwell.line_ends import escape_line_ends
from embedwell_batches.batch import (
    Batch,
    BatchLimits,
    Ending,
    Problem,
    Problems,
    Status,
    StoredBatch,
)
from embedwell_batches.batch_store import BatchStore
from embedwell_batches.file_store import FileStore
from embedwell_batches.folder import FILE_PREFIX, REQUEST_PREFIX, new_id
from embedwell_batches.json_lines import (
    RequestLine,
    check_requests,
    request_groups,
)
from embedwell_batches.route_calls import RouteResponse

_MAX_TOGETHER = 1000  # requests that are computed at once; each may take 64 KB
_ENDED_EARLY = {
    "cancelled": ("batch_cancelled", "the batch was cancelled before this request was computed"),
    "expired": ("batch_expired", "the batch expired before this request was computed"),
}


class BatchWork:
    """A batch that is being computed.

    Results are written before the progress that counts them is saved, so a kill loses none.
    """

    def __init__(
        self, stored: StoredBatch, batches: BatchStore, files: FileStore, limits: BatchLimits
    ) -> None:
        self._stored, self._batches, self._files, self._limits = stored, batches, files, limits
        folder = batches.folder(self.batch.id)
        self._input = folder / "input.jsonl"
        self._output, self._errors = folder / "output.jsonl", folder / "errors.jsonl"

    @property
    def batch(self) -> Batch:
        """The batch as it is saved, never as cancelling."""
        return self._stored.batch

    def publish_end(self) -> bool:
        """Complete an end that was interrupted, if any; return whether the batch has ended."""
        if self._stored.ending is not None:
            self._publish(self._stored.ending)
        return self._stored.ending is not None

    def start(self) -> bool:
        """Check a new batch, or resume one; return whether requests are left."""
        if self.batch.status == "validating":
            total, problems = check_requests(
                self._input, self.batch.endpoint, self._limits.line_bytes
            )
            if problems:
                self._end(Ending(status="failed", errors=Problems(data=problems)))
                return False
            self.batch.status, self.batch.in_progress_at = "in_progress", int(time.time())
            self.batch.request_counts.total = total
            self._batches.save(self._stored)
        self._truncate()
        return True

    def next_requests(self, max_bytes: int) -> list[RequestLine]:
        """Return the next requests, up to so many bytes or a single one; none at the end."""
        return next(self._rest(max_bytes), [])

    def record(self, results: Sequence[tuple[RequestLine, RouteResponse]]) -> None:
        """Write results and count their requests; raises TooLarge if the folder is full."""
        counts, progress = self.batch.request_counts, self._stored.progress
        good = [part for result in results if result[1].status == 200 for part in _line(*result)]
        bad = [part for result in results if result[1].status != 200 for part in _line(*result)]
        with self._files.space.room_for(_size(good) + _size(bad)):
            _append(self._output, good)
            _append(self._errors, bad)
        progress.output += _size(good)
        progress.errors += _size(bad)
        progress.input = results[-1][0].end
        succeeded = sum(response.status == 200 for _, response in results)
        counts.completed += succeeded
        counts.failed += len(results) - succeeded
        self._batches.save(self._stored)

    def finish(self, status: Status) -> None:
        """End the batch; requests that were not computed become errors.

        There are no such errors if the batch ends before its requests were checked. Raises TooLarge
        if the folder is full.
        """
        if self.batch.status == "in_progress":
            self._truncate()
            for group in self._rest(self._limits.line_bytes):
                lines = [_error_line(line, *_ENDED_EARLY[status]) for line in group]
                with self._files.space.room_for(_size(lines)):
                    _append(self._errors, lines)
                self._stored.progress.errors += _size(lines)
        self._end(Ending(status=status))

    def fail(self, code: str, message: str) -> None:
        """End the batch for a reason that none of its requests caused."""
        if not self.publish_end():
            problems = Problems(data=[Problem(code=code, message=message)])
            self._truncate()
            self._end(Ending(status="failed", errors=problems))

    def _rest(self, max_bytes: int) -> Iterator[list[RequestLine]]:
        start, line_bytes = self._stored.progress.input, self._limits.line_bytes
        return request_groups(self._input, start, max_bytes, line_bytes, _MAX_TOGETHER)

    def _truncate(self) -> None:
        """Remove results that were written but not counted."""
        progress = self._stored.progress
        for path, size in ((self._output, progress.output), (self._errors, progress.errors)):
            with path.open("ab") as file:
                file.truncate(size)

    def _end(self, ending: Ending) -> None:
        progress = self._stored.progress
        ending.output_file_id = new_id(FILE_PREFIX) if progress.output else None
        ending.error_file_id = new_id(FILE_PREFIX) if progress.errors else None
        self.batch.status, self.batch.finalizing_at = "finalizing", int(time.time())
        self._stored.ending = ending
        self._batches.save(self._stored)
        self._publish(ending)

    def _publish(self, ending: Ending) -> None:
        """Make files of the results. After a kill this is repeated."""
        batch = self.batch
        for path, id in (
            (self._output, ending.output_file_id),
            (self._errors, ending.error_file_id),
        ):
            if id is not None:
                name = f"{batch.id}_{path.name}"
                self._files.adopt(path, id, name, self._stored.output_seconds)
        batch.output_file_id, batch.error_file_id = ending.output_file_id, ending.error_file_id
        batch.status, batch.errors = ending.status, ending.errors
        batch.cancelling_at = self._batches.cancelled_at(batch.id)
        setattr(batch, f"{batch.status}_at", int(time.time()))
        self._batches.save(self._stored)
        for path in (self._input, self._output, self._errors):
            path.unlink(missing_ok=True)


def _append(path: Path, parts: Sequence[bytes]) -> None:
    """Append bytes to a file and sync it to the disk."""
    if parts:
        with path.open("ab") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())


def _size(parts: Sequence[bytes]) -> int:
    return sum(map(len, parts))


def _line(line: RequestLine, response: RouteResponse) -> tuple[bytes, ...]:
    """Return the line of a result in parts: its body is large, and JSON already."""
    head = {"id": response.request_id, "custom_id": line.custom_id, "error": None}
    described = {"status_code": response.status, "request_id": response.request_id}
    start, inner = orjson.dumps(head)[:-1], orjson.dumps(described)[:-1]
    start = escape_line_ends(b'%s,"response":%s,"body":' % (start, inner))
    return start, escape_line_ends(response.body), b"}}\n"


def _error_line(line: RequestLine, code: str, message: str) -> bytes:
    error = {"code": code, "message": message}
    fields = {
        "id": new_id(REQUEST_PREFIX),
        "custom_id": line.custom_id,
        "response": None,
        "error": error,
    }
    return escape_line_ends(orjson.dumps(fields)) + b"\n"
