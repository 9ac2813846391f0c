"""When the clients in Python try again, and after how long."""

import random
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

import httpx

Found = httpx.Response | httpx.RequestError
"""What came of an attempt."""

BUSY = (429, 502, 503)  # 502: of a gateway that reached no server
LOST = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ConnectTimeout)
LONGEST = 30.0  # seconds before the next attempt
LATER = 0.25  # of a pause, at most: those who were refused together do not come back together


def passing(found: Found) -> bool:
    """Whether another attempt may fare better."""
    if isinstance(found, httpx.Response):
        return found.status_code in BUSY
    return isinstance(found, LOST)


def pause(found: Found, attempt: int, dice: Callable[[], float] = random.random) -> float:
    """Seconds until the next attempt: as Retry-After says, and at least twice as many each time.

    dice: 0 to 1, how much later than that.
    https://www.rfc-editor.org/rfc/rfc9110#field.retry-after
    """
    told = found.headers.get("retry-after", "") if isinstance(found, httpx.Response) else ""
    seconds = float(told) if told.isdecimal() else _until(told)
    least: float = 0.5 * 2 ** min(attempt, 9)
    return min(max(seconds, least), LONGEST) * (1 + LATER * dice())


def _until(date: str) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except ValueError:
        return 0.0
