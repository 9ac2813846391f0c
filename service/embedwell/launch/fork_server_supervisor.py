"""Fork processes with embedwell.launch.fork_server, which has imported their modules."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Sequence
from io import FileIO
from itertools import count

import orjson

from embedwell.launch.reports import Report
from embedwell.launch.supervisor import ChildSpec, Launch, Supervisor, program
from embedwell.launch.watchdog import HangLimits
from embedwell.settings.settings import Settings

_START = 120.0  # seconds until it has imported its modules, perhaps torch


class ForkedProcess:
    """A process whose parent is the fork server, which reports its start and its end."""

    def __init__(self, stdin: FileIO) -> None:
        self.stdin, self.pid = stdin, 0
        self.returncode: int | None = None
        self._forked, self._ended = asyncio.Event(), asyncio.Event()

    async def wait_forked(self) -> None:
        """Wait until the process has a process id; raises OSError if it gets none."""
        await self._forked.wait()
        if not self.pid:
            raise OSError("the fork server has ended")

    async def wait(self) -> int:
        """Wait until the process has ended, and return its exit status."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def note_forked(self, pid: int) -> None:
        """Record that the process has been forked."""
        self.pid = pid
        self._forked.set()

    def note_end(self, status: int) -> None:
        """Record that the process has ended, or will not be forked."""
        self.returncode = status
        self.stdin.close()
        self._forked.set()
        self._ended.set()

    def kill(self) -> None:
        """Kill the process, if it has been forked, and its children; no end is reported."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        self.note_end(-signal.SIGKILL)


class ForkServerSupervisor(Supervisor):
    """Runs the fork server. If it dies, its processes are killed: none would report their ends."""

    def __init__(
        self,
        settings: Settings,
        fds: Sequence[int],
        *,
        engines_need_torch: bool,
        launch: Launch = program,
    ) -> None:
        """fds: descriptors that the forked processes inherit.

        engines_need_torch: whether to import torch before the first fork. An engine that needs
        torch nevertheless imports it itself.
        """
        self._requests, self._accepting = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fd = self._accepting.fileno()
        config = orjson.dumps([fd, settings.log_level, settings.log_format, engines_need_torch])
        super().__init__(
            ChildSpec(
                "the fork server",
                launch("embedwell.launch.fork_server", [fd, *fds]),
                lambda: config,
                HangLimits(start=_START),
            ),
            self._on_event,
            self._lose_processes,
        )
        self._numbers = count()
        self._usable, self._refusing = asyncio.Event(), False
        self._processes: dict[int, ForkedProcess] = {}  # by the number of the request

    async def run(self) -> None:
        """Keep the fork server running until it is stopped."""
        with self._requests, self._accepting:
            await super().run()
            self._lose_processes()

    async def fork(self, output: int) -> ForkedProcess:
        """Start a process once the fork server is ready; raises OSError.

        output: descriptor of the standard output of the process.
        """
        await self._usable.wait()
        if self._refusing:
            raise OSError("the server is stopping")
        reader, writer = os.pipe()
        process, number = ForkedProcess(FileIO(writer, "wb")), next(self._numbers)
        self._processes[number] = process
        try:
            socket.send_fds(self._requests, [b"%d" % number], [reader, output])
            await process.wait_forked()
        except BaseException:
            process.stdin.close()  # it ends, if it is still forked
            self._processes.pop(number, None)
            raise
        finally:
            os.close(reader)
        return process

    def stop_forking(self) -> None:
        """Refuse to start more processes."""
        self._refusing = True
        self._usable.set()

    def _on_event(self, report: Report) -> None:
        match report["event"]:
            case "ready":
                self._usable.set()
            case "forked" if report["number"] in self._processes:
                self._processes[report["number"]].note_forked(report["pid"])
            case "ended" if report["number"] in self._processes:
                self._processes.pop(report["number"]).note_end(report["status"])

    def _lose_processes(self) -> None:
        if not self._refusing:
            self._usable.clear()
        for process in self._processes.values():
            process.kill()
        self._processes.clear()
