"""Limits of files and batches."""

from dataclasses import dataclass

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
