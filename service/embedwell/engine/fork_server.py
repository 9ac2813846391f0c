"""Fork the launchers of several models' engines: `python -m embedwell.engine.fork_server`.

Importing torch takes seconds and 150 MB. This process does it once, and all engines share that
memory. It stays single-threaded, and each launcher is in a session of its own.
"""

import gc
import os
import selectors
import signal
import socket
import sys

from embedwell.engine import __main__ as launcher
from embedwell.process.reports import report

_STDIN, _STDOUT = 0, 1


def main() -> None:
    """Fork a launcher for each request, until the server ends.

    A request has a number, and the descriptors of the launcher's standard input and output. The
    reports are "forked", with the number and the process id, and "ended", with its exit status.
    """
    requests = socket.socket(fileno=int(sys.stdin.buffer.readline()))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ended, wake = socket.socketpair()
    ended.setblocking(False)
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    gc.collect()
    gc.freeze()  # garbage collections in engines would copy memory pages shared with them
    with selectors.DefaultSelector() as selector:
        for source in (_STDIN, requests, ended):
            selector.register(source, selectors.EVENT_READ)
        report("ready")
        while True:
            ready = [key.fileobj for key, _ in selector.select()]
            if _STDIN in ready:  # closed: the server has ended
                return
            if ended in ready:
                ended.recv(1 << 12)
                _report_ended()
            if requests in ready:
                _fork(requests)


def _fork(requests: socket.socket) -> None:
    number, [stdin, stdout], *_ = socket.recv_fds(requests, 32, 2)
    pid = os.fork()
    if not pid:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        requests.close()
        os.setsid()
        os.dup2(stdin, _STDIN)
        os.dup2(stdout, _STDOUT)
        os.close(stdin)
        os.close(stdout)
        launcher.main()
        sys.exit()
    os.close(stdin)
    os.close(stdout)
    report("forked", number=int(number), pid=pid)


def _report_ended() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        report("ended", pid=pid, status=os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
