"""A batch: requests of a file, and its progress."""

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, Field

from embedwell.http.field_descriptions import DescribedModel

Status = Literal[
    "validating",
    "failed",
    "in_progress",
    "finalizing",
    "completed",
    "expired",
    "cancelling",
    "cancelled",
]

FINAL = {"failed", "completed", "expired", "cancelled"}
"""Statuses of a batch that has ended."""


class Problem(DescribedModel):
    """A reason why a batch failed.

    - `code`: a stable identifier of the reason, for programs.
    - `message`: the reason in words, and what to do.
    - `param`: the field of the request that is the reason; null if there is none.
    - `line`: line of the file, from 1; null if the reason does not concern a line.
    """

    code: str
    message: str
    param: str | None = None
    line: int | None = None


class Problems(DescribedModel):
    """The reasons why a batch failed.

    - `object`: always `list`.
    - `data`: the reasons, in the order of the file's lines.
    """

    object: Literal["list"] = "list"
    data: list[Problem]


class RequestCounts(DescribedModel):
    """Numbers of requests of a batch.

    - `total`: requests in the file; 0 until it has been checked.
    - `completed`: requests that have a response with status 200.
    - `failed`: requests that have an error.
    """

    total: int = 0
    completed: int = 0
    failed: int = 0


class Batch(DescribedModel):
    """A batch in OpenAI's format. Times are in seconds since 1970.

    - `id`: name of the batch, for `/v1/batches/{id}`.
    - `object`: always `batch`.
    - `endpoint`: route that computes each request of the file.
    - `errors`: reasons why the whole batch failed; null unless `status` is `failed`.
    - `input_file_id`: file with one request in each line.
    - `completion_window`: hours (h) or days (d) within which requests are computed.
    - `status`: where the batch is: `validating` the file, `in_progress`, `finalizing` the results,
      or ended as `completed`, `failed`, `expired` or `cancelled`.
    - `output_file_id`: file with the responses, for `/v1/files/{id}/content`; null until the batch
      has ended, or if there are none.
    - `error_file_id`: file with the errors of requests; null until the batch has ended, or if there
      are none.
    - `created_at`: time at which the batch was created.
    - `in_progress_at`: time at which the first request was computed; null before.
    - `expires_at`: time at which requests that are not computed expire.
    - `finalizing_at`: time at which the last request was computed; null before.
    - `completed_at`: time at which the batch was completed; null if it was not.
    - `failed_at`: time at which the batch failed; null if it did not.
    - `expired_at`: time at which the batch expired; null if it did not.
    - `cancelling_at`: time of the request to cancel the batch; null if there was none.
    - `cancelled_at`: time at which the batch was cancelled; null if it was not.
    - `request_counts`: how many requests are computed.
    - `metadata`: the values that the client sent when it created the batch.
    """

    id: str
    object: Literal["batch"] = "batch"
    endpoint: str
    errors: Problems | None = None
    input_file_id: str
    completion_window: str
    status: Status = "validating"
    output_file_id: str | None = None
    error_file_id: str | None = None
    created_at: int
    in_progress_at: int | None = None
    expires_at: int
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None
    request_counts: RequestCounts = Field(default_factory=RequestCounts)
    metadata: dict[str, str] | None = None


class ProcessedBytes(BaseModel):
    """Bytes of a batch's three files that have been processed."""

    input: int = 0
    output: int = 0
    errors: int = 0


class Ending(BaseModel):
    """The end of a batch, saved before its results become files: its status and their names."""

    status: Status
    errors: Problems | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None


class StoredBatch(BaseModel):
    """A batch, and the data to resume it after a restart.

    - `output_seconds`: seconds for which the files of results are kept; None for the setting's.
    """

    batch: Batch
    output_seconds: int | None = None
    progress: ProcessedBytes = Field(default_factory=ProcessedBytes)
    ending: Ending | None = None


MAX_REQUESTS = 50_000
"""Maximum requests of a batch, as in OpenAI's API."""

MAX_LINES = 2 * MAX_REQUESTS
"""Maximum lines of a file, with empty ones."""

MAX_NAME = 512
"""Maximum characters of a request's custom_id, and of a file's name."""


@dataclass(frozen=True)
class BatchLimits:
    """Limits of files and batches.

    file_bytes: maximum bytes of an uploaded file.
    folder_bytes: maximum bytes that all files and batches take on the disk.
    line_bytes: maximum bytes of one request.
    retention: seconds for which files and finished batches are kept.
    """

    file_bytes: int
    folder_bytes: int
    line_bytes: int
    retention: float
