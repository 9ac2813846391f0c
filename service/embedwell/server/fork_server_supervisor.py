"""Start processes with embedwell.engine.fork_server, which has imported their modules."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from embedwell.process.reports import Report
from embedwell.process.supervisor import ChildSpec, Supervisor
from embedwell.process.watchdog import HangLimits

_START = 120.0  # seconds until it has imported torch


class PipeInput:
    """Standard input of a process: the writing end of a pipe."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd

    def write(self, data: bytes) -> None:
        """Write data that fits into the pipe; does nothing if the process has ended."""
        if self._fd is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._fd, data)

    def close(self) -> None:
        """Close the pipe; the process reads its end."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class ForkedProcess:
    """A process whose parent is the fork server, which reports its end."""

    def __init__(self, pid: int, stdin: PipeInput) -> None:
        self.pid, self.stdin = pid, stdin
        self.returncode: int | None = None
        self._ended = asyncio.Event()

    async def wait(self) -> int:
        """Wait until the process has ended, and return its exit status."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def note_end(self, status: int) -> None:
        """Record that the process has ended."""
        self.returncode = status
        self.stdin.close()
        self._ended.set()


@dataclass(frozen=True)
class _ForkRequest:
    """A process that has been requested, with its standard input."""

    stdin: PipeInput
    process: asyncio.Future[ForkedProcess]


class ForkServerSupervisor(Supervisor):
    """Runs the fork server. If it dies, its processes are killed: none would report their ends."""

    def __init__(self, fds: Sequence[int]) -> None:
        """fds: descriptors that the forked processes inherit."""
        self._requests, self._accepting = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fd = self._accepting.fileno()
        super().__init__(
            ChildSpec(
                "the fork server",
                "embedwell.engine.fork_server",
                lambda: b"%d" % fd,
                [fd, *fds],
                HangLimits(start=_START),
            ),
            self._on_event,
            self._lose_processes,
        )
        self._numbers = count()
        self._usable, self._refusing = asyncio.Event(), False
        self._unanswered: dict[int, _ForkRequest] = {}
        self._processes: dict[int, ForkedProcess] = {}  # by process id

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
        request = _ForkRequest(PipeInput(writer), asyncio.get_running_loop().create_future())
        number = next(self._numbers)
        self._unanswered[number] = request
        try:
            socket.send_fds(self._requests, [b"%d" % number], [reader, output])
            return await request.process
        except OSError:
            request.stdin.close()
            raise
        finally:
            os.close(reader)
            self._unanswered.pop(number, None)

    def stop_forking(self) -> None:
        """Refuse to start more processes."""
        self._refusing = True
        self._usable.set()

    def _on_event(self, report: Report) -> None:
        match report["event"]:
            case "ready":
                self._usable.set()
            case "forked" if report["number"] in self._unanswered:
                request = self._unanswered.pop(report["number"])
                process = ForkedProcess(report["pid"], request.stdin)
                self._processes[process.pid] = process  # immediately, as it may already have ended
                request.process.set_result(process)
            case "ended" if report["pid"] in self._processes:
                self._processes.pop(report["pid"]).note_end(report["status"])

    def _lose_processes(self) -> None:
        if not self._refusing:
            self._usable.clear()
        for request in self._unanswered.values():
            request.process.set_exception(OSError("the fork server has ended"))
        self._unanswered.clear()
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.note_end(-signal.SIGKILL)
        self._processes.clear()
