"""Limits of what is kept for batches."""

from dataclasses import dataclass

MAX_REQUESTS = 50_000
"""Most requests of a batch, as in OpenAI's API."""


@dataclass(frozen=True)
class BatchLimits:
    """file_bytes: of an uploaded file. folder_bytes: of all files. line_bytes: of one request.

    retention: seconds for which files and finished batches are kept.
    """

    file_bytes: int
    folder_bytes: int
    line_bytes: int
    retention: float
