"""Decide which attempts the Python clients repeat, and after which delay."""

import random
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

import httpx

AttemptResult = httpx.Response | httpx.RequestError
"""The response to an attempt, or the exception if there is none."""

RETRYABLE_STATUSES = (429, 502, 503)  # 502: a gateway reached no server
RETRYABLE_ERRORS = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ConnectTimeout)
MAX_DELAY = 30.0  # seconds before the next attempt
MAX_JITTER = 0.25  # share of a delay; clients that were rejected together should not retry together


def is_retryable(result: AttemptResult) -> bool:
    """Return whether another attempt may succeed."""
    if isinstance(result, httpx.Response):
        return result.status_code in RETRYABLE_STATUSES
    return isinstance(result, RETRYABLE_ERRORS)


def retry_delay(
    result: AttemptResult, attempt: int, jitter: Callable[[], float] = random.random
) -> float:
    """Return the seconds until the next attempt: Retry-After, and at least twice as many each time.

    https://www.rfc-editor.org/rfc/rfc9110#field.retry-after

    attempt: 0 for the first one.
    jitter: returns 0 to 1, the share of MAX_JITTER to add.
    """
    retry_after = (
        result.headers.get("retry-after", "") if isinstance(result, httpx.Response) else ""
    )
    seconds = float(retry_after) if retry_after.isdecimal() else _until(retry_after)
    least: float = 0.5 * 2 ** min(attempt, 9)
    return min(max(seconds, least), MAX_DELAY) * (1 + MAX_JITTER * jitter())


def _until(date: str) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except ValueError:
        return 0.0
