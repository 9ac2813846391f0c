"""Start a process of this program, and restart it when it ends or hangs."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from embedwell.process.reports import Report, ReportReader
from embedwell.process.watchdog import HangLimits, Watchdog

log = logging.getLogger(__name__)

# Exit status of a process that has logged why it will never start. Unlike 3, uvicorn's status for a
# failed start, no other program uses it.
EXIT_PERMANENT_FAILURE = os.EX_CONFIG
_STEADY = 30.0  # seconds after which a start counts as successful
_ATTEMPTS = (
    5  # starts of a process that was never ready; a process that was ready is always restarted
)
_TICK = 1.0  # seconds between two checks of a process
_ENVIRONMENT = {
    # How often a waiting thread spins before it sleeps (GNU OpenMP). The default of 300,000 makes a
    # forward pass a hundred times slower when other programs use the processors.
    "GOMP_SPINCOUNT": "3000",
    # numpy starts threads at import, and a fork does not copy them.
    "OPENBLAS_NUM_THREADS": "1",
}


class ProcessInput(Protocol):
    """Standard input of a process, as in asyncio.subprocess."""

    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...


class Process(Protocol):
    """A running process, as in asyncio.subprocess."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    @property
    def stdin(self) -> ProcessInput | None: ...
    async def wait(self) -> int: ...


@dataclass(frozen=True)
class ChildSpec:
    """Parameters for starting a process, and limits after which it counts as hung.

    name: name in the log.
    config: returns the first line of its input.
    pass_fds: descriptors that it inherits.
    limits: times after which it counts as hung.
    """

    name: str
    module: str
    config: Callable[[], bytes]
    pass_fds: Sequence[int] = ()
    limits: HangLimits = field(default_factory=HangLimits)
    program: str = sys.executable


class Supervisor:
    """Runs one process at a time, and restarts it when it ends or hangs.

    The process reports "ready" once it has started, and "restarting" when it restarts by itself. It
    stops when its input ends, which also happens when this process dies.
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
        self._process: Process | None = None
        self._stopping = self._was_ready = False

    async def run(self) -> None:
        """Keep a process running; return when it is stopped, or cannot be started."""
        delay, failures = 0.1, 0
        while not self._stopping:
            started = time.monotonic()
            status, ending = await self._life()
            # A failed first start has logged its reason.
            if status == EXIT_PERMANENT_FAILURE and self._was_ready:
                log.error("%s and is not restarted", ending)
            if self._stopping or status == EXIT_PERMANENT_FAILURE:
                return
            failures += 1
            if not self._was_ready and failures == _ATTEMPTS:
                log.error("%s; it was started %d times and was never ready", ending, failures)
                return
            delay = 0.1 if time.monotonic() - started > _STEADY else min(delay * 2, 10.0)
            log.error("%s; restarting it in %.1f s", ending, delay)
            self._on_restart()
            await asyncio.sleep(delay)
            self._reap()

    def stop(self, timeout: float | None = None) -> None:
        """Tell the process to finish and stop; it is not restarted.

        timeout: seconds to finish, instead of the usual limit.
        """
        self._stopping = True
        self._watchdog.note_stop_requested(timeout)
        self._close_input()

    def restart_start_timer(self) -> None:
        """Restart the time limit for getting ready."""
        self._watchdog.note_started()

    def kill(self) -> None:
        """Kill the process and its children."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

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
            return None, f"{self._child.name} cannot be started: {error}"
        try:
            process = self._process = await self._start(reports.write_end)
        except OSError as error:  # no free process or memory
            return None, f"{self._child.name} cannot be started: {error}"
        else:
            return await self._attend(process)
        finally:
            self.kill()  # children that it left behind
            reports.close()

    async def _start(self, output: int) -> Process:
        self._watchdog.note_started()  # before the start, as the process may be ready immediately
        try:
            process = await self._spawn(output)
        finally:
            os.close(output)
        assert process.stdin is not None
        process.stdin.write(self._child.config() + b"\n")
        return process

    async def _spawn(self, output: int) -> Process:
        """Start the process; raises OSError.

        output: descriptor of its standard output.
        """
        return await asyncio.create_subprocess_exec(
            # -P keeps the working directory off the path, because its files could shadow modules.
            *(self._child.program, "-P", "-m", self._child.module),
            stdin=PIPE,
            stdout=output,
            env={**_ENVIRONMENT, **os.environ},
            pass_fds=self._child.pass_fds,
            # It stops at the end of its input, not at a signal of the terminal to all processes.
            start_new_session=True,
        )

    async def _attend(self, process: Process) -> tuple[int, str]:
        if self._stopping:  # stop() was called before the process started
            self._close_input()
        while process.returncode is None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), self._tick)
            if process.returncode is None and (fault := self._watchdog.check()):
                log.error("%s %s and is killed", self._child.name, fault)
                self.kill()
        return process.returncode, f"{self._child.name} {describe_end(process.returncode)}"

    def _close_input(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def _note(self, report: Report) -> None:
        if report["event"] == "ready":
            self._was_ready = True
            self._watchdog.note_ready()
        elif report["event"] == "restarting":
            self._watchdog.note_started()
            self._on_restart()
        self._on_report(report)


def describe_end(status: int) -> str:
    """Describe an exit status; a negative status is minus the number of a signal."""
    if status >= 0:
        return f"ended with status {status}"
    if status == -signal.SIGKILL:
        return "was killed by signal 9, often for lack of memory"
    return f"was ended by {signal.Signals(-status).name}"
