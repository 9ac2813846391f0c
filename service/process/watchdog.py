"""When a process is taken to hang: bookkeeping, nothing else."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class Limits:
    """Seconds that a process may take.

    start: until it is ready. stop: to finish what it does. silence: without any change of its
    heartbeat, while it is ready.
    """

    start: float = inf
    stop: float = 5.0
    silence: float = inf
    heartbeat: Callable[[], float] = lambda: 0.0


class Watchdog:
    """Counts its own looks at a process, and not the time by the clock.

    Where a whole machine or container stands still for a while, so does this.
    """

    def __init__(self, limits: Limits, tick: float) -> None:
        """tick: seconds between two looks."""
        self._limits, self._tick, self._stop_limit = limits, tick, limits.stop
        self._ready = self._stopping = False
        self._heartbeat, self._waited = 0.0, 0.0

    def start(self) -> None:
        """The process begins, or begins anew."""
        self._ready, self._waited = False, 0.0

    def ready(self) -> None:
        """The process has started."""
        self._ready, self._waited = True, 0.0

    def stop(self, timeout: float | None = None) -> None:
        """The process is told to stop, in so many seconds or the usual ones."""
        self._stopping, self._waited = True, 0.0
        if timeout is not None:
            self._stop_limit = timeout

    def look(self) -> str | None:
        """What the process has failed to do, if its time for that is up."""
        self._waited += self._tick
        if self._stopping:
            limit, fault = self._stop_limit, "has not finished in {:g} s"
        elif not self._ready:
            limit, fault = self._limits.start, "is not ready after {:g} s"
        else:
            limit, fault = self._limits.silence, "has not moved for {:g} s"
            heartbeat = self._limits.heartbeat()
            if heartbeat != self._heartbeat:
                self._heartbeat, self._waited = heartbeat, 0.0
        return fault.format(limit) if self._waited >= limit else None
