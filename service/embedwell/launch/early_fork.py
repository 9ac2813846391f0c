"""Fork the first processes of a server before it starts threads: they share what is imported.

A process that is forked here waits until it is wanted. It shares the memory of the imported
modules, and it does not import them again, which takes a third of the start. Those that replace
it are programs of their own.
"""

import asyncio
import contextlib
import gc
import importlib
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Collection, Sequence
from io import FileIO
from pathlib import Path
from typing import NoReturn

from embedwell.launch.supervisor import Process, Spawn, program

_THREADS, _DESCRIPTORS = Path("/proc/self/task"), Path("/proc/self/fd")
_SHARED = (  # what both HTTP processes and engines import, which the first process does not use
    "embedwell.engine.wire.messages",
    "embedwell_models.loading.word_table",
    "embedwell_models.model_description",
)


def fork_early(module: str, pass_fds: Sequence[int] = ()) -> Spawn:
    """Fork a process for the `main` of a module; return what starts it, and its successors.

    If this process has other threads, which a fork would not copy, all are programs.

    pass_fds: descriptors that it keeps. It closes all others.
    """
    later = program(module, pass_fds)
    if _may_fork():
        _import_shared()
    if not _may_fork():  # numpy has just started threads, because a variable says so
        return later
    waiting: list[_WaitingProcess] = [_WaitingProcess(module, pass_fds)]

    async def spawn(output: int) -> Process:
        return waiting.pop().start(output) if waiting else await later(output)

    return spawn


def _may_fork() -> bool:
    with contextlib.suppress(OSError, AttributeError):  # not Linux, or a descriptor is closed
        os.close(os.pidfd_open(os.getpid()))
        for standard_stream in range(3):
            os.fstat(standard_stream)
        return len([*_THREADS.iterdir()]) == threading.active_count() == 1
    return False


def _import_shared() -> None:
    gc.disable()
    for module in _SHARED:
        importlib.import_module(module)
    gc.freeze()  # a collection would copy what it passes over
    gc.enable()


class _WaitingProcess:
    """A process that waits for the descriptors of its standard input and output."""

    def __init__(self, module: str, pass_fds: Sequence[int]) -> None:
        self._socket, theirs = socket.socketpair()
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
        self._pid = os.fork()
        if not self._pid:
            _run(module, theirs, pass_fds)
        theirs.close()
        self._socket.recv(1)  # now it leads a process group

    def start(self, output: int) -> Process:
        """Let the process run with a descriptor as its standard output; raises OSError."""
        reader, writer = os.pipe()
        try:
            socket.send_fds(self._socket, [b"\n"], [reader, output])
        except OSError:
            os.close(writer)
            raise
        finally:
            os.close(reader)
            self._socket.close()
        return _StartedProcess(self._pid, FileIO(writer, "wb"))


class _StartedProcess:
    """A running process."""

    def __init__(self, pid: int, stdin: FileIO) -> None:
        self.pid, self.stdin = pid, stdin
        self._pidfd = os.pidfd_open(pid)
        self.returncode: int | None = None

    async def wait(self) -> int:
        """Wait until the process has ended, and return its exit status."""
        if self.returncode is None:
            await self._wait_ended()
            _, status = os.waitpid(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)
            self.stdin.close()
            os.close(self._pidfd)
        return self.returncode

    async def _wait_ended(self) -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._pidfd, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._pidfd)


def _run(module: str, wanted: socket.socket, pass_fds: Sequence[int]) -> NoReturn:
    """Run the `main` of a module once the process is wanted; end the process."""
    status = 1
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        wanted.send(b"\n")
        _close_all_but({0, 1, 2, wanted.fileno(), *pass_fds})
        with wanted:
            _, descriptors, *_ = socket.recv_fds(wanted, 1, 2)
        if descriptors:  # the server has not ended
            _use_as_standard_streams(descriptors)
            _leave_working_directory()
            importlib.import_module(module).main()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
        os._exit(status)  # what this process has inherited is not its own to clean up


def _close_all_but(kept: Collection[int]) -> None:
    for number in [int(path.name) for path in _DESCRIPTORS.iterdir()]:
        if number not in kept:
            with contextlib.suppress(OSError):  # the one with which they were listed
                os.close(number)


def _use_as_standard_streams(descriptors: Sequence[int]) -> None:
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115


def _leave_working_directory() -> None:
    # The files of the working directory could shadow modules that are not imported yet.
    if not sys.flags.safe_path and sys.path[:1] == [str(Path.cwd())]:
        del sys.path[0]
