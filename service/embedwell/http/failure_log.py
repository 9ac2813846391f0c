"""Log failed requests, with a limit on the lines of a second."""

import logging
import time

log = logging.getLogger(__name__)

_MAX_LINES = 10  # lines of a second


class FailureLog:
    """Writes a limited number of lines in a second, and counts those beyond it."""

    def __init__(self) -> None:
        self._second, self._lines, self._dropped = 0, 0, 0

    def write(self, request_id: str, path: str, status: int, message: str) -> None:
        second = int(time.monotonic())
        if second != self._second:
            if self._dropped:
                log.warning("%d more requests failed", self._dropped)
            self._second, self._lines, self._dropped = second, 0, 0
        if self._lines < _MAX_LINES:
            self._lines += 1
            fields = {"request_id": request_id, "path": path, "status": status}
            log.warning("request %s to %s: %d %s", request_id, path, status, message, extra=fields)
        else:
            self._dropped += 1
