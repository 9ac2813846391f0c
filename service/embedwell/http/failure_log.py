"""Log failed requests and invalid ones, at most so many lines a second."""

import logging
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

_MAX_LINES = 10  # lines a second


class FailureLog:
    """Logs up to a limit of lines a second, and counts the failures beyond it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._second, self._lines, self._dropped = 0, 0, 0

    def write(self, request_id: str, path: str, status: int, message: str) -> None:
        second = int(self._clock())
        if second != self._second:
            if self._dropped:
                log.warning("%d more requests failed and were not logged", self._dropped)
            self._second, self._lines, self._dropped = second, 0, 0
        if self._lines < _MAX_LINES:
            self._lines += 1
            fields = {"request_id": request_id, "path": path, "status": status}
            log.warning("request %s to %s: %d %s", request_id, path, status, message, extra=fields)
        else:
            self._dropped += 1


class InvalidRequestLog:
    """Logs at most one line a second about bytes that are not HTTP, with their number."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._second, self._count = 0, 0

    def write(self) -> None:
        """Count an invalid request, and log the number since the last line once a second."""
        self._count += 1
        second = int(self._clock())
        if second != self._second:
            log.warning("clients sent bytes that are not a valid HTTP request (%d)", self._count)
            self._second, self._count = second, 0
