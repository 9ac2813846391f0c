"""Lines of the log about requests that fail: enough to find one, and not a flood of them."""

import logging
import time

log = logging.getLogger(__name__)

_MOST = 10  # lines of a second


class FailureLog:
    """Writes so many lines in a second at most, and how many there would have been beside."""

    def __init__(self) -> None:
        self._second, self._lines, self._dropped = 0, 0, 0

    def write(self, request_id: str, path: str, status: int, message: str) -> None:
        second = int(time.monotonic())
        if second != self._second:
            if self._dropped:
                log.warning("%d more requests failed", self._dropped)
            self._second, self._lines, self._dropped = second, 0, 0
        if self._lines < _MOST:
            self._lines += 1
            log.warning("request %s to %s: %d %s", request_id, path, status, message)
        else:
            self._dropped += 1
