"""Decide from reports and a heartbeat whether a process hangs."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class HangLimits:
    """Seconds after which a process counts as hung, and its heartbeat.

    start: seconds until it is ready.
    start_setting: name of the setting for `start`, if there is one.
    stop: seconds until it has finished.
    heartbeat_timeout: seconds without a change of its heartbeat, once it is ready.
    """

    start: float = inf
    start_setting: str = ""
    stop: float = 5.0
    heartbeat_timeout: float = inf
    heartbeat: Callable[[], float] = lambda: 0.0


class Watchdog:
    """Reports when a process missed a time limit.

    Time is measured by the number of checks instead of the clock, so a process is not killed
    because its machine or container was suspended for a while.
    """

    def __init__(self, limits: HangLimits, tick: float) -> None:
        """tick: seconds between two checks."""
        self._limits, self._tick, self._stop_limit = limits, tick, limits.stop
        self._ready = self._stopping = False
        self._heartbeat, self._waited = 0.0, 0.0

    def note_started(self) -> None:
        """Record that the process was started."""
        self._ready, self._waited = False, 0.0

    def note_ready(self) -> None:
        """Record that the process is ready."""
        self._ready, self._waited = True, 0.0

    def note_stop_requested(self, timeout: float | None = None) -> None:
        """Record that the process was told to stop.

        timeout: seconds to finish, instead of the usual limit.
        """
        self._stopping, self._waited = True, 0.0
        if timeout is not None:
            self._stop_limit = timeout

    def check(self) -> str | None:
        """Return the limit that the process has missed, or None."""
        self._waited += self._tick
        if self._stopping:
            limit, fault = self._stop_limit, "has not finished in {:g} s"
        elif not self._ready:
            setting = self._limits.start_setting
            hint = f" ({setting}; raise it)" if setting else ""
            limit, fault = self._limits.start, "is not ready after {:g} s" + hint
        else:
            limit, fault = self._limits.heartbeat_timeout, "has shown no progress for {:g} s"
            heartbeat = self._limits.heartbeat()
            if heartbeat != self._heartbeat:
                self._heartbeat, self._waited = heartbeat, 0.0
        return fault.format(limit) if self._waited >= limit else None
