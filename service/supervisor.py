"""Keeps another process of this program running: the engine, or one more for HTTP."""

import asyncio
import contextlib
import logging
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from dataclasses import dataclass

log = logging.getLogger(__name__)

# Exit status of a process that will not run however often it is started: no other program's, as
# uvicorn's 3 for a start that failed.
REFUSED = os.EX_CONFIG
_STEADY = 30.0  # seconds; a process that ran this long did not fail to start
# A thread that waits for another spins this often before it sleeps (GNU OpenMP). Its own choice of
# 300,000 makes a pass a hundred times slower when anything else wants the processors.
_ENVIRONMENT = {"GOMP_SPINCOUNT": "3000"}


@dataclass(frozen=True)
class Child:
    """How a process is started. name: in the log. letter: the first line of its input.

    descriptors: that it inherits. patience: seconds that it may take to leave.
    """

    name: str
    module: str
    letter: bytes
    descriptors: Sequence[int] = ()
    patience: float = 5.0
    program: str = sys.executable


class Supervisor:
    """One process at a time, started again when it ends.

    The end of its input tells it to leave; it comes to that end, too, when this process is no more.
    """

    def __init__(
        self,
        child: Child,
        on_refused: Callable[[], None] = lambda: None,
        on_restart: Callable[[], None] = lambda: None,
    ) -> None:
        """on_refused: called when it says that starting it again would not help."""
        self._child, self._on_refused, self._on_restart = child, on_refused, on_restart
        self._process: Process | None = None
        self._leaving = False

    def kill(self) -> None:
        """End a process that hangs; another one is started."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    def leave(self) -> None:
        """Tell the process to finish what it does; no other one is started."""
        self._leaving = True
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def run(self) -> None:
        """Keep a process running until cancelled."""
        delay = 0.1
        while not self._leaving:
            started = time.monotonic()
            try:
                status = await self._life()
                what = f"{self._child.name} ended with status {status}"
            except OSError as error:
                # No process, memory or disk to be had: that passes, or an operator sees it here
                # and in /ready. To end the server would only move the same loop to its manager.
                status, what = None, f"{self._child.name} cannot be started: {error}"
            if status == REFUSED:
                log.error("%s and is not started again", what)
                self._on_refused()
            if status == REFUSED or self._leaving:
                return
            delay = 0.1 if time.monotonic() - started > _STEADY else min(delay * 2, 10.0)
            log.error("%s; starting it again in %.1f s", what, delay)
            self._on_restart()
            await asyncio.sleep(delay)

    async def _life(self) -> int:
        process = self._process = await asyncio.create_subprocess_exec(
            # -P: else a file of the folder where the server was started passes for a module.
            *(self._child.program, "-P", "-m", self._child.module),
            stdin=PIPE,
            env={**_ENVIRONMENT, **os.environ},
            pass_fds=self._child.descriptors,
            # It is told to leave by the end of its input, not by a terminal that tells all.
            start_new_session=True,
        )
        try:
            assert process.stdin is not None
            with contextlib.suppress(RuntimeError):  # uvloop's, where the process has just ended
                process.stdin.write(self._child.letter + b"\n")
            if self._leaving:  # since it was told while the process began
                process.stdin.close()
            return await process.wait()
        finally:
            await self._end(process)

    async def _end(self, process: Process) -> None:
        if process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._child.patience):
                await process.wait()
                return
        process.kill()
        await process.wait()
