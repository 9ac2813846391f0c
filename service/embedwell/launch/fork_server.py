"""Program that forks the engines: `python -m embedwell.launch.fork_server`.

It imports once what all engines need, and they share that memory; torch, which takes seconds and
150 MB, only if they are likely to need it. It stays single-threaded, because a fork does not copy
other threads.
"""

import contextlib
import gc
import importlib
import logging
import os
import selectors
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict

import orjson

from embedwell.engine.wire.spec import EngineSpec
from embedwell.engine.worker.main import is_transient, start
from embedwell.gc_tuning import settle_heap
from embedwell.launch.logging import configure_logging
from embedwell.launch.supervised import (
    ENGINE,
    EXIT_PERMANENT_FAILURE,
    FORK_SERVER,
    name_process,
    tell_supervisor,
)
from embedwell_models.cpu_backend import library
from embedwell_models.errors import ModelError

log = logging.getLogger(__name__)

_STDIN, _STDOUT = 0, 1


def main() -> None:
    """Fork an engine for each request, until the server ends."""
    name_process(FORK_SERVER)
    line = sys.stdin.buffer.readline()
    requests_fd, log_level, log_format, engines_need_torch = orjson.loads(line)
    configure_logging(log_level, log_format)
    # Signals may be sent to all processes, but the server decides when its engines stop.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    importlib.import_module("embedwell_models.loading.loaded_model")  # which loads import late
    if engines_need_torch or library.best_isa("float32") is None:
        import_torch()
    gc.collect()
    gc.freeze()  # garbage collections in engines would copy memory pages shared with them
    is_engine = serve(requests_fd)
    if is_engine:
        name_process(ENGINE)
    if is_engine and (spec := sys.stdin.buffer.readline()):  # empty if it was given up meanwhile
        run_engine(EngineSpec.from_json(spec))


def import_torch() -> None:
    """Import torch and what computes on it; where torch is missing, the engines say so."""
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module("embedwell_models.torch_backend.encoder")


def serve(requests_fd: int) -> bool:
    """Fork a process for each request until standard input ends; return True in such a process.

    A request has a number, and the descriptors of the process's standard input and output. The
    reports are "forked", with the number and the process id, and "ended", with the exit status.
    """
    numbers: dict[int, int] = {}  # of the running processes, by process id
    with ExitStack() as stack:
        requests = stack.enter_context(socket.socket(fileno=requests_fd))
        selector = stack.enter_context(closing(selectors.DefaultSelector()))
        ended = stack.enter_context(_child_signals())
        for source in (_STDIN, requests, ended):
            selector.register(source, selectors.EVENT_READ)
        tell_supervisor("ready")
        while True:
            ready = [key.fileobj for key, _ in selector.select()]
            if _STDIN in ready:
                break
            if ended in ready:
                ended.recv(1 << 12)
                _report_ended(numbers)
            if requests in ready:
                number, descriptors, *_ = socket.recv_fds(requests, 32, 2)
                if not descriptors:  # closed, a moment before standard input
                    break
                pid = _fork(*descriptors)
                if not pid:
                    return True
                numbers[pid] = int(number)
                tell_supervisor("forked", number=int(number), pid=pid)
    for pid in numbers:  # the server has ended, and one that hangs would never notice it
        os.kill(pid, signal.SIGKILL)
    return False


@contextmanager
def _child_signals() -> Iterator[socket.socket]:
    """Yield a socket that is readable when a child process has ended."""
    ended, wake = socket.socketpair()
    with ended, wake:
        ended.setblocking(False)
        wake.setblocking(False)
        signal.set_wakeup_fd(wake.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        try:
            yield ended
        finally:
            signal.set_wakeup_fd(-1)


def _fork(stdin: int, stdout: int) -> int:
    """Fork a process in a group of its own; return its id, and in the process 0."""
    pid = os.fork()
    if pid:
        os.setpgid(pid, pid)  # here, so that the group exists once the process is reported
    else:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(stdin, _STDIN)
        os.dup2(stdout, _STDOUT)
    os.close(stdin)
    os.close(stdout)
    return pid


def _report_ended(numbers: dict[int, int]) -> None:
    while numbers:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        tell_supervisor("ended", number=numbers.pop(pid), status=os.waitstatus_to_exitcode(status))


def run_engine(spec: EngineSpec) -> None:
    """Load the model, then compute until the server shuts down.

    Raises errors that may be temporary (memory, files or device are not available); exits on
    permanent ones.
    """
    try:
        engine, startup_choices = start(spec)
    except Exception as error:
        message = str(error) or type(error).__name__
        tell_supervisor("failed", reason=f"{spec.model} cannot be loaded: {message}")
        if is_transient(error):
            raise
        if not isinstance(error, ModelError):
            # The same files give the same error: exit, so that the process manager sees the
            # failure, instead of restarting the engine forever.
            log.exception("%s cannot be loaded", spec.model)
        sys.exit(EXIT_PERMANENT_FAILURE)
    tell_supervisor("ready", startup_choices=asdict(startup_choices))
    settle_heap()
    engine.run()


if __name__ == "__main__":
    main()
