"""Limits of files and batches."""

from dataclasses import dataclass

MAX_REQUESTS = 50_000
"""Maximum requests of a batch, as in OpenAI's API."""


@dataclass(frozen=True)
class BatchLimits:
    """Limits of files and batches.

    file_bytes: maximum bytes of an uploaded file.
    folder_bytes: maximum bytes of all files.
    line_bytes: maximum bytes of one request.
    retention: seconds for which files and finished batches are kept.
    """

    file_bytes: int
    folder_bytes: int
    line_bytes: int
    retention: float
