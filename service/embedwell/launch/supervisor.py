"""Restart a process when it ends or hangs, and read its reports."""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any

import orjson

from embedwell.launch.processes import Process, ProcessInput, Spawn
from embedwell.launch.supervised import EXIT_PERMANENT_FAILURE, REPLACE_LINE, STOP_LINE

log = logging.getLogger(__name__)

Report = dict[str, Any]  # it has the name of the event as "event"
_FIRST_DELAY, _MAX_DELAY = 0.2, 10.0  # seconds before the next start
_ATTEMPTS = 5  # starts of a process that was never ready; one that was is always restarted
_TICK = 1.0  # seconds between two checks of a process


class ReportReader:
    """Opens a pipe, and calls back for each report from it, on the running event loop.

    Reports are lines of JSON; other lines are logged.
    """

    def __init__(self, on_report: Callable[[Report], None]) -> None:
        self._on_report, self._incomplete = on_report, b""
        self._end, self.write_end = os.pipe()
        os.set_blocking(self._end, False)
        asyncio.get_running_loop().add_reader(self._end, self._read)

    def close(self) -> None:
        """Read the remaining reports, and close the pipe."""
        with contextlib.suppress(BlockingIOError):
            while self._read():
                continue
        asyncio.get_running_loop().remove_reader(self._end)
        os.close(self._end)

    def _read(self) -> bool:
        data = os.read(self._end, 1 << 16)
        if not data:
            asyncio.get_running_loop().remove_reader(self._end)
        *lines, self._incomplete = (self._incomplete + data).split(b"\n")
        for line in lines:
            try:
                message = orjson.loads(line)
            except orjson.JSONDecodeError:  # it was printed by a library
                log.info("%s", line.decode(errors="replace"))
            else:
                self._on_report(message)
        return bool(data)


@dataclass(frozen=True)
class HangLimits:
    """Seconds after which a process counts as hung, and its heartbeat.

    start: seconds until it is ready.
    start_setting: name of the setting for `start`, if there is one.
    stop: seconds until it has finished.
    heartbeat_timeout: seconds without a change of its heartbeat, once it is ready.
    heartbeat: returns the heartbeat, which is negative while the process is not in use.
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

    @property
    def has_limit(self) -> bool:
        """Whether the process has a time limit now. It has none while it waits for clients."""
        if self._stopping:
            return self._stop_limit < inf
        if not self._ready:
            return self._limits.start < inf
        return self._limits.heartbeat_timeout < inf and self._limits.heartbeat() >= 0

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


@dataclass(frozen=True)
class ChildSpec:
    """Parameters for starting a process, and limits after which it counts as hung.

    name: name in the log.
    spawn: starts it, as the leader of a process group.
    config: returns the first line of its input.
    """

    name: str
    spawn: Spawn
    config: Callable[[], bytes]
    limits: HangLimits = field(default_factory=HangLimits)


class Supervisor:
    """Runs one process at a time, and restarts it when it ends or hangs.

    The process reports "ready" once it has started, "in_use" when its heartbeat begins, and
    "failed" with a reason before it ends for a known one. After a start that was ready, the next
    one follows at once. The process stops when its input ends, which ends with STOP_LINE or
    REPLACE_LINE unless this process dies.
    """

    def __init__(
        self,
        child: ChildSpec,
        on_report: Callable[[Report], None] = lambda _: None,
        on_restart: Callable[[], None] = lambda: None,
        tick: float = _TICK,
    ) -> None:
        """on_report: called with each report.

        on_restart: called before each start but the first.
        """
        self._child, self._on_report, self._on_restart = child, on_report, on_restart
        self._tick, self._watchdog = tick, Watchdog(child.limits, tick)
        self._next_check: asyncio.TimerHandle | None = None  # only while there is a time limit
        self._process: Process | None = None
        self._group: int | None = None  # of the process, until both are killed
        self.spawned = asyncio.Event()  # set when the first process was started, or could not be
        self.ready = False  # whether the current process is ready
        self._stopping = self._was_ready = False
        self._last_line = STOP_LINE  # of the input
        self._kill_level = logging.ERROR  # of the line which says that a process is killed
        self._reported_reason: str | None = None  # of the end of the current process
        self._killed_for: str | None = None  # the time limit that the current process has missed
        self.failure: str | None = None
        """Why the process cannot run, for the caller of `run` to log."""

    async def run(self) -> None:
        """Keep a process running; return when it is stopped, or cannot be started."""
        delay, starts = 0.0, 0
        while not self._stopping:
            self.ready, self._reported_reason, starts = False, None, starts + 1
            status, ending = await self._life()
            if self._is_permanent(status, starts):
                self.failure = self._describe_failure(ending, starts)
            if self._stopping or self.failure:
                return
            delay = 0.0 if self.ready else min(max(delay * 2, _FIRST_DELAY), _MAX_DELAY)
            log.error("%s; starting another%s", ending, f" in {delay:.1f} s" if delay else "")
            self._on_restart()
            await asyncio.sleep(delay)

    def _is_permanent(self, status: int | None, starts: int) -> bool:
        never_ready = not self._was_ready and starts == _ATTEMPTS
        return status == EXIT_PERMANENT_FAILURE or never_ready

    def _describe_failure(self, ending: str, starts: int) -> str:
        reason = self._reported_reason or f"{ending}; see the lines above"
        if self._was_ready:
            return f"{reason} ({self._child.name} is not restarted)"
        if starts < _ATTEMPTS:
            return reason
        return f"{reason} ({self._child.name} was started {starts} times and was never ready)"

    def stop(self, timeout: float | None = None) -> None:
        """Tell the process to finish and stop; it is not restarted.

        timeout: seconds to finish, instead of the usual limit; then it is killed as intended.
        """
        if not self._stopping:
            self._stopping = True
            self._kill_level = logging.ERROR if timeout is None else logging.DEBUG
            self._watchdog.note_stop_requested(timeout)
            self._schedule_check()
            self._close_input()

    def stop_for_successor(self) -> None:
        """Like `stop`, for a process whose successor starts as soon as it has ended."""
        self._last_line = REPLACE_LINE
        self.stop()

    def kill(self) -> None:
        """Kill the process and its children."""
        if self._group is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, signal.SIGKILL)

    def _reap(self) -> None:
        """Collect zombies of the last process group, which process 1 of a container inherits."""
        with contextlib.suppress(ChildProcessError):
            while self._process and os.waitpid(-self._process.pid, os.WNOHANG)[0]:
                continue

    async def _life(self) -> tuple[int | None, str]:
        """Run one process to its end: return its status, if any, and a description of its end."""
        try:
            reports = ReportReader(self._note)
        except OSError as error:  # no free descriptor
            self.spawned.set()
            return None, f"{self._child.name} cannot be started: {error}"
        try:
            process = await self._start(reports.write_end)
        except OSError as error:  # no free process or memory
            return None, f"{self._child.name} cannot be started: {error}"
        else:
            return await self._attend(process)
        finally:
            self.kill()  # children that it left behind
            self._group = None  # another process may get the number
            if self._next_check is not None:
                self._next_check.cancel()
                self._next_check = None
            if self._process is not None:  # which a cancelled call leaves running
                await self._process.wait()
            reports.close()

    async def _start(self, output: int) -> Process:
        self._watchdog.note_started()  # before the start, as the process may be ready immediately
        try:
            process = await self._child.spawn(output)
        finally:
            self.spawned.set()
            os.close(output)
        self._reap()
        self._process, self._group, self._killed_for = process, process.pid, None
        self._schedule_check()
        self._write(self._child.config() + b"\n")
        return process

    async def _attend(self, process: Process) -> tuple[int, str]:
        if self._stopping:  # stop() was called before the process started
            self._close_input()
        status = await process.wait()
        ending = self._killed_for or describe_end(status)
        return status, f"{self._child.name} {ending}"

    def _schedule_check(self) -> None:
        runs = self._process is not None and self._process.returncode is None
        if runs and self._next_check is None and self._watchdog.has_limit:
            self._next_check = asyncio.get_running_loop().call_later(self._tick, self._check)

    def _check(self) -> None:
        self._next_check = None
        if fault := self._watchdog.check():
            log.log(self._kill_level, "%s %s and is killed", self._child.name, fault)
            self._killed_for = fault
            self.kill()
        self._schedule_check()

    def _close_input(self) -> None:
        if stdin := self._write(self._last_line):
            stdin.close()

    def _write(self, line: bytes) -> ProcessInput | None:
        """Write to the process if it runs, and return its input."""
        if self._process is None or self._process.returncode is not None:
            return None
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(OSError):  # it has just ended
            stdin.write(line)
        return stdin

    def _note(self, report: Report) -> None:
        if report["event"] == "ready":
            self.ready = self._was_ready = True
            self._watchdog.note_ready()
        elif report["event"] == "failed":
            self._reported_reason = report["reason"]
        self._schedule_check()
        self._on_report(report)


def describe_end(status: int) -> str:
    """Describe an exit status, which is -n after signal n."""
    if status >= 0:
        return f"ended with status {status}"
    if status == -signal.SIGKILL:
        return "was killed by signal 9, often for lack of memory"
    return f"was ended by {signal.Signals(-status).name}"
