"""Start the processes of a server: fork them from the first one, or run programs.

A forked process shares the memory of imported modules, and it does not import them again, which
takes a third of the start. Nothing of its parent goes on in it: no event loop, no signal handler,
no cleanup at the exit.
"""

import asyncio
import contextlib
import gc
import importlib
import os
import signal
import sys
import threading
import traceback
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import ExitStack
from functools import cache
from io import FileIO
from pathlib import Path
from typing import NoReturn, Protocol

_THREADS, _DESCRIPTORS = Path("/proc/self/task"), Path("/proc/self/fd")
_SHARED = (  # what both HTTP processes and engines import, which the first process does not use
    "embedwell.engine.wire.messages",
    "embedwell_models.description.model_description",
)

ENVIRONMENT = {
    # Variables of all processes of a server, unless they are set.
    # How often a waiting thread spins before it sleeps (GNU OpenMP). The default of 300,000 makes a
    # forward pass a hundred times slower when other programs use the processors.
    "GOMP_SPINCOUNT": "3000",
    # numpy starts threads at import, and a fork does not copy them.
    "OPENBLAS_NUM_THREADS": "1",
    # Otherwise pydantic looks for plugins in all packages of the environment.
    "PYDANTIC_DISABLE_PLUGINS": "__all__",
}


class ProcessInput(Protocol):
    """Standard input of a process, as in asyncio.subprocess."""

    def write(self, data: bytes, /) -> object: ...
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


Spawn = Callable[[int], Awaitable[Process]]
"""Starts a process with a descriptor as its standard output; raises OSError."""

Launch = Callable[[str, Sequence[int]], Spawn]
"""Returns what starts a module of Python with descriptors that it inherits."""


def program(module: str, pass_fds: Sequence[int] = (), executable: str = sys.executable) -> Spawn:
    """Return what starts a module of Python as a program.

    pass_fds: descriptors that it inherits.
    """

    async def spawn(output: int) -> Process:
        return await asyncio.create_subprocess_exec(
            # -P keeps the working directory off the path, because its files could shadow modules.
            *(executable, "-P", "-m", module),
            stdin=PIPE,
            stdout=output,
            env={**ENVIRONMENT, **os.environ},
            pass_fds=pass_fds,
            # It stops at the end of its input, not at a signal of the terminal to all processes.
            start_new_session=True,
        )

    return spawn


def forked(module: str, pass_fds: Sequence[int] = ()) -> Spawn:
    """Return what forks a process for the `main` of a module, which this process imports first.

    If this process has other threads, which a fork would not copy, or the system is not Linux, the
    process is a program.

    pass_fds: descriptors that it keeps. It closes all others.
    """
    fallback = program(module, pass_fds)

    async def spawn(output: int) -> Process:
        process = await _outside_tasks(lambda: _fork(module, pass_fds, output))
        return process or await fallback(output)

    return spawn


def preload(module: str) -> None:
    """Import a module for the processes that are forked from now on, where forks are possible."""
    if _may_fork():
        with contextlib.suppress(OSError):  # the process that needs it says what is missing
            _import_shared(module)


async def _outside_tasks(call: Callable[[], "ForkedProcess | None"]) -> "ForkedProcess | None":
    # In Python 3.14.0, a process that is forked in a task cannot run others.
    loop = asyncio.get_running_loop()
    result: asyncio.Future[ForkedProcess | None] = loop.create_future()

    def run() -> None:
        if result.cancelled():
            return
        try:
            process = call()
        except Exception as error:
            result.set_exception(error)
        else:
            result.set_result(process)

    loop.call_soon(run)
    return await result


def _fork(module: str, pass_fds: Sequence[int], output: int) -> "ForkedProcess | None":
    """Fork a process, unless that is impossible; raises OSError."""
    if _may_fork():
        _import_shared(module)
    if not _may_fork():  # numpy has just started threads, because a variable says so
        return None
    return ForkedProcess(module, pass_fds, output)


def _may_fork() -> bool:
    if None in (sys.__stdin__, sys.__stdout__, sys.__stderr__):  # closed: sockets have its number
        return False
    with contextlib.suppress(OSError, AttributeError):  # not Linux
        os.close(os.pidfd_open(os.getpid()))
        return len([*_THREADS.iterdir()]) == threading.active_count() == 1
    return False


@cache  # once for each module
def _import_shared(module: str) -> None:
    # The files of the working directory could shadow modules that are not imported yet.
    if not sys.flags.safe_path and sys.path[:1] == [str(Path.cwd())]:
        del sys.path[0]
    gc.disable()
    try:
        for name in (*_SHARED, module):
            importlib.import_module(name)
    except Exception as error:  # a library is missing or broken
        raise OSError(f"{module} cannot be imported: {error}") from error
    finally:
        gc.freeze()  # a collection would copy what it passes over
        gc.enable()


class ForkedProcess:
    """A child process, the leader of a session."""

    def __init__(self, module: str, pass_fds: Sequence[int], output: int) -> None:
        """Fork a process for the `main` of a module; raises OSError.

        pass_fds: descriptors that it keeps.
        output: descriptor of its standard output.
        """
        with ExitStack() as files:  # closed if this fails
            stdin, self.stdin = _pipe(files)
            starting, closed_when_started = _pipe(files)
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
            self.pid = os.fork()
            if not self.pid:
                _run(module, stdin.fileno(), output, pass_fds)
            files.pop_all()
        closed_when_started.close()
        starting.read(1)  # now it leads a session
        for file in (stdin, starting):
            file.close()
        self._pidfd = os.pidfd_open(self.pid)
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


def _pipe(files: ExitStack) -> tuple[FileIO, FileIO]:
    """Open a pipe, to be closed with a stack: the ends to read and to write; raises OSError."""
    reader, writer = os.pipe()
    return files.enter_context(FileIO(reader)), files.enter_context(FileIO(writer, "wb"))


def _run(module: str, stdin: int, stdout: int, pass_fds: Sequence[int]) -> NoReturn:
    """Run the `main` of a module in a process that has just been forked; end the process."""
    status = 1
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if callable(signal.getsignal(number)):  # a handler of the parent
                signal.signal(number, signal.SIG_DFL)
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        _close_all_but({0, 1, 2, *pass_fds})
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
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
