"""Compute one batch: read its requests, write its results, and save its state."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

import orjson

from embedwell.batches.batch import Batch, Ending, Problem, Problems, Status, StoredBatch
from embedwell.batches.batch_store import BatchStore
from embedwell.batches.file_store import FileStore
from embedwell.batches.ids import FILE, REQUEST, new_id
from embedwell.batches.limits import BatchLimits
from embedwell.batches.request_lines import RequestLine, check_requests, request_groups
from embedwell.batches.route_calls import RouteResponse

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

    def start(self) -> bool:
        """Check a new batch, or resume one; return whether requests are left."""
        if self._stored.ending is not None:
            self._publish(self._stored.ending)
            return False
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
        _truncate(self._output, self._stored.progress.output)
        _truncate(self._errors, self._stored.progress.errors)
        return True

    def next_requests(self, max_bytes: int) -> list[RequestLine]:
        """Return the next requests, up to so many bytes or a single one; none at the end."""
        return next(request_groups(self._input, self._stored.progress.input, max_bytes), [])

    def record(self, results: Sequence[tuple[RequestLine, RouteResponse]]) -> None:
        """Write results and count their requests; raises TooLarge if the folder is full."""
        counts, progress = self.batch.request_counts, self._stored.progress
        good = [_result_line(*result) for result in results if result[1].status == 200]
        bad = [_result_line(*result) for result in results if result[1].status != 200]
        progress.output += _append(self._output, good)
        progress.errors += _append(self._errors, bad)
        progress.input = results[-1][0].end
        counts.completed += len(good)
        counts.failed += len(bad)
        self._files.check_space(progress.output + progress.errors)
        self._batches.save(self._stored)

    def finish(self, status: Status) -> None:
        """End the batch; requests that were not computed become errors."""
        progress = self._stored.progress
        for group in request_groups(self._input, progress.input, self._limits.line_bytes):
            lines = [_error_line(line, *_ENDED_EARLY[status]) for line in group]
            progress.errors += _append(self._errors, lines)
        self._end(Ending(status=status))

    def fail(self, code: str, message: str) -> None:
        """End the batch for a reason that none of its requests caused."""
        problems = Problems(data=[Problem(code=code, message=message)])
        self._end(Ending(status="failed", errors=problems))

    def _end(self, ending: Ending) -> None:
        progress = self._stored.progress
        ending.output_file_id = new_id(FILE) if progress.output else None
        ending.error_file_id = new_id(FILE) if progress.errors else None
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
                self._files.adopt(path, id, f"{batch.id}_{path.name}")
        batch.output_file_id, batch.error_file_id = ending.output_file_id, ending.error_file_id
        batch.status, batch.errors = ending.status, ending.errors
        batch.cancelling_at = self._batches.cancelled_at(batch.id)
        setattr(batch, f"{batch.status}_at", int(time.time()))
        self._batches.save(self._stored)
        self._input.unlink(missing_ok=True)


def _truncate(path: Path, size: int) -> None:
    with path.open("ab") as file:
        file.truncate(size)


def _append(path: Path, lines: Sequence[bytes]) -> int:
    """Append lines to a file and sync it to the disk; return the number of bytes."""
    content = b"".join(lines)
    with path.open("ab") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return len(content)


def _result_line(line: RequestLine, response: RouteResponse) -> bytes:
    head = {"id": response.request_id, "custom_id": line.custom_id, "error": None}
    described = {"status_code": response.status, "request_id": response.request_id}
    # The body is large, and JSON already.
    start, inner = orjson.dumps(head)[:-1], orjson.dumps(described)[:-1]
    return b'%s,"response":%s,"body":%s}}\n' % (start, inner, response.body)


def _error_line(line: RequestLine, code: str, message: str) -> bytes:
    error = {"code": code, "message": message}
    fields = {"id": new_id(REQUEST), "custom_id": line.custom_id, "response": None, "error": error}
    return orjson.dumps(fields) + b"\n"
