"""Pass connections from HTTP processes to the running engine.

They go over a socket pair that all processes inherit, so no other program can find or remove a path
in the file system.
"""

import os
import socket

from embedwell.engine.wire.running_text_counts import RunningTextCounts

Connection = tuple[socket.socket, RunningTextCounts]
"""One end of a connection to the engine, and the table of its running jobs."""


def handoff_pair() -> tuple[socket.socket, socket.socket]:
    """Return the HTTP processes' end for requests, and the engine's end, which accepts them.

    Requests wait in the socket while no engine runs.
    """
    requesting, accepting = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    requesting.setblocking(False)  # an event loop must not wait for space in the socket
    return requesting, accepting


def request_connection(connect_fd: int) -> Connection:
    """Open a connection to the engine and return this end; raises OSError, maybe temporary.

    connect_fd: the HTTP processes' end of the handoff pair.
    """
    running, file = RunningTextCounts.create()
    with file:
        ours, theirs = socket.socketpair()
        try:
            with theirs, socket.fromfd(connect_fd, socket.AF_UNIX, socket.SOCK_DGRAM) as handoff:
                socket.send_fds(handoff, [b"connection"], [theirs.fileno(), file.fileno()])
        except OSError:
            ours.close()
            raise
    return ours, running


def accept_connection(handoff: socket.socket) -> Connection:
    """Return the engine's end of the oldest requested connection; waits for a request.

    handoff: the engine's end of the handoff pair.
    """
    _, [connection_fd, table_fd], *_ = socket.recv_fds(handoff, 16, 2)
    os.set_inheritable(connection_fd, False)
    running = RunningTextCounts.attach(table_fd)
    os.close(table_fd)
    return socket.socket(fileno=connection_fd), running
