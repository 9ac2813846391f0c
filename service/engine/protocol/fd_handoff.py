"""Where the HTTP processes of a server get their lines to its engine, whichever one runs.

A pair of sockets that the processes inherit: nothing has a name that others could find or remove.
"""

import os
import socket

from service.engine.protocol.running_jobs import RunningJobs

Connection = tuple[socket.socket, RunningJobs]
"""One end of a connection to the engine, and the table of its jobs that are being computed."""


def exchange() -> tuple[socket.socket, socket.socket]:
    """The end where lines are asked for, and the engine's.

    What is asked for while there is no engine waits for one.
    """
    asking, giving = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    asking.setblocking(False)  # whoever asks has other things to do than to wait for room
    return asking, giving


def ask(asking: int) -> Connection:
    """Our end of a new line, the other being for the engine; raises OSError, which may pass.

    asking: the descriptor of the end where lines are asked for.
    """
    running, file = RunningJobs.create()
    with file:
        ours, theirs = socket.socketpair()
        try:
            with theirs, socket.fromfd(asking, socket.AF_UNIX, socket.SOCK_DGRAM) as end:
                socket.send_fds(end, [b"line"], [theirs.fileno(), file.fileno()])
        except OSError:
            ours.close()
            raise
    return ours, running


def give(giving: socket.socket) -> Connection:
    """The engine's end of the line that was asked for longest ago; waits for one."""
    _, [end, file], *_ = socket.recv_fds(giving, 16, 2)
    os.set_inheritable(end, False)
    running = RunningJobs.attach(file)
    os.close(file)
    return socket.socket(fileno=end), running
