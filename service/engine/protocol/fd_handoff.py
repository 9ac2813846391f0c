"""Hand connections to the engine to HTTP processes, whichever engine runs.

A pair of sockets that the processes inherit: nothing has a name that others could find or remove.
"""

import os
import socket

from service.engine.protocol.running_jobs import RunningJobs

Connection = tuple[socket.socket, RunningJobs]
"""One end of a connection to the engine, and the table of its jobs that are being computed."""


def handoff_pair() -> tuple[socket.socket, socket.socket]:
    """Return the requesting end, and the engine's end.

    What is asked for while there is no engine waits for one.
    """
    asking, handing = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    asking.setblocking(False)  # whoever asks has other things to do than to wait for room
    return asking, handing


def request_connection(asking: int) -> Connection:
    """Request a connection to the engine and return our end; raises OSError, which may pass.

    asking: the descriptor of the requesting end.
    """
    running, file = RunningJobs.create()
    with file:
        ours, theirs = socket.socketpair()
        try:
            with theirs, socket.fromfd(asking, socket.AF_UNIX, socket.SOCK_DGRAM) as end:
                socket.send_fds(end, [b"connection"], [theirs.fileno(), file.fileno()])
        except OSError:
            ours.close()
            raise
    return ours, running


def hand_over(handing: socket.socket) -> Connection:
    """Return the engine's end of the connection that was requested first; waits for a request."""
    _, [end, file], *_ = socket.recv_fds(handing, 16, 2)
    os.set_inheritable(end, False)
    running = RunningJobs.attach(file)
    os.close(file)
    return socket.socket(fileno=end), running
