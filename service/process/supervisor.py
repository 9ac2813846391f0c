"""Keep another process of this program running."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from service.process.reports import Report, ReportReader
from service.process.watchdog import Limits, Watchdog

log = logging.getLogger(__name__)

# Exit status of a process that will not run however often it is started, and has said why: no other
# program's, as uvicorn's 3 for a start that failed.
REFUSED = os.EX_CONFIG
_STEADY = 30.0  # seconds; a process that ran this long did not fail to start
_ATTEMPTS = 5  # to start a process that never was ready; one that was is tried for ever
_TICK = 1.0  # seconds between two looks at a process
_ENVIRONMENT = {
    # A thread that waits for another spins this often before it sleeps (GNU OpenMP). Its own choice
    # of 300,000 makes a pass a hundred times slower when anything else wants the processors.
    "GOMP_SPINCOUNT": "3000",
    # numpy starts threads when it is imported, which a fork does not copy; nothing here needs them.
    "OPENBLAS_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class Child:
    """How a process is started.

    name: in the log. config: gives the first line of its input. pass_fds: descriptors that it
    inherits. limits: after what time it is taken to hang.
    """

    name: str
    module: str
    config: Callable[[], bytes]
    pass_fds: Sequence[int] = ()
    limits: Limits = field(default_factory=Limits)
    program: str = sys.executable


class Supervisor:
    """One process at a time, started again when it ends or hangs.

    The process reports "ready" when it has started, and "restarting" where it begins anew by
    itself. The end of its input tells it to stop; it comes to that end, too, when this process is
    no more.
    """

    def __init__(
        self,
        child: Child,
        on_report: Callable[[Report], None] = lambda _: None,
        on_restart: Callable[[], None] = lambda: None,
        tick: float = _TICK,
    ) -> None:
        """on_report: called with each report. on_restart: before each start but the first."""
        self._child, self._on_report, self._on_restart = child, on_report, on_restart
        self._tick, self._watchdog = tick, Watchdog(child.limits, tick)
        self._process: Process | None = None
        self._stopping = self._was_ready = False

    async def run(self) -> None:
        """Keep a process running; returns when it is stopped, or starting it again is no use."""
        delay, failures = 0.1, 0
        while not self._stopping:
            started = time.monotonic()
            status, ending = await self._life()
            if status == REFUSED and self._was_ready:  # else nobody wonders why this is the end
                log.error("%s and is not started again", ending)
            if self._stopping or status == REFUSED:
                return
            failures += 1
            if not self._was_ready and failures == _ATTEMPTS:
                log.error("%s; it was started %d times and never was ready", ending, failures)
                return
            delay = 0.1 if time.monotonic() - started > _STEADY else min(delay * 2, 10.0)
            log.error("%s; starting it again in %.1f s", ending, delay)
            self._on_restart()
            await asyncio.sleep(delay)
            self._reap()

    def stop(self, timeout: float | None = None) -> None:
        """Tell the process to finish what it does; no other one is started.

        timeout: seconds that it has for that, instead of its usual ones.
        """
        self._stopping = True
        self._watchdog.stop(timeout)
        self._close_input()

    def expect_ready(self) -> None:
        """Give the process as much time to be ready as at its start."""
        self._watchdog.start()

    def kill(self) -> None:
        """End the process, and what it has started, at once."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _reap(self) -> None:
        """Collect zombies of the last process group, which a container's first process inherits."""
        with contextlib.suppress(ChildProcessError):
            while self._process and os.waitpid(-self._process.pid, os.WNOHANG)[0]:
                continue

    async def _life(self) -> tuple[int | None, str]:
        """Run one process to its end: its status, if it has one, and what happened in words."""
        try:
            reports = ReportReader(self._note)
        except OSError as error:  # no descriptor is free
            return None, f"{self._child.name} cannot be started: {error}"
        try:
            process = self._process = await self._start(reports.write_end)
        except OSError as error:  # no process or memory to be had
            return None, f"{self._child.name} cannot be started: {error}"
        else:
            return await self._attend(process)
        finally:
            self.kill()  # what it has started, and left behind
            reports.close()

    async def _start(self, output: int) -> Process:
        self._watchdog.start()
        try:
            process = await asyncio.create_subprocess_exec(
                # -P: else a file of the folder where the server was started passes for a module.
                *(self._child.program, "-P", "-m", self._child.module),
                stdin=PIPE,
                stdout=output,
                env={**_ENVIRONMENT, **os.environ},
                pass_fds=self._child.pass_fds,
                # It is told to stop by the end of its input, not by a terminal that tells all.
                start_new_session=True,
            )
        finally:
            os.close(output)
        assert process.stdin is not None
        process.stdin.write(self._child.config() + b"\n")
        return process

    async def _attend(self, process: Process) -> tuple[int, str]:
        if self._stopping:  # since before the process began
            self._close_input()
        while process.returncode is None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), self._tick)
            if process.returncode is None and (fault := self._watchdog.look()):
                log.error("%s %s and is killed", self._child.name, fault)
                self.kill()
        return process.returncode, f"{self._child.name} {describe_end(process.returncode)}"

    def _close_input(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def _note(self, report: Report) -> None:
        if report["event"] == "ready":
            self._was_ready = True
            self._watchdog.ready()
        elif report["event"] == "restarting":
            self._watchdog.start()
            self._on_restart()
        self._on_report(report)


def describe_end(status: int) -> str:
    """What an exit status says, or the signal that it stands for if it is negative."""
    if status >= 0:
        return f"ended with status {status}"
    hint = " (is there too little memory?)" if status == -signal.SIGKILL else ""
    return f"was ended by {signal.Signals(-status).name}{hint}"
