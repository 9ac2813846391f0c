"""Connections of HTTP processes to the running engine, each with a table of its running jobs.

They are passed over a socket pair that all processes inherit, so no other program can find or
remove a path in the file system.
"""

import mmap
import os
import socket
from tempfile import TemporaryFile
from typing import BinaryIO

_SLOTS = 4096
_SLOT_BYTES = 4


class RunningTextCounts:
    """Number of texts in running batches, for each job of one connection, in shared memory.

    The engine writes before and after a batch; the HTTP process reads when the connection is lost.
    Jobs whose numbers differ by a multiple of 4096 share a slot, so a waiting job may appear to
    run.
    """

    def __init__(self, memory: mmap.mmap) -> None:
        self._counts = memoryview(memory).cast("i")

    @classmethod
    def create(cls) -> tuple["RunningTextCounts", BinaryIO]:
        """Return an empty table, and the file by which the engine maps it; raises OSError."""
        file = TemporaryFile()  # noqa: SIM115
        try:
            # Allocate the pages: writing to a mapped hole on a full disk would kill the process.
            file.write(bytes(_SLOTS * _SLOT_BYTES))
            file.flush()
            return cls.attach(file.fileno()), file
        except OSError:
            file.close()
            raise

    @classmethod
    def attach(cls, fd: int) -> "RunningTextCounts":
        """Map the table of a file descriptor, which may be closed afterwards."""
        return cls(mmap.mmap(fd, _SLOTS * _SLOT_BYTES))

    def begin(self, number: int, texts: int = 1) -> None:
        """Count texts of a job whose batch begins."""
        self._counts[number % _SLOTS] += texts

    def end(self, number: int, texts: int = 1) -> None:
        """Count texts of a job whose batch has ended."""
        self._counts[number % _SLOTS] -= texts

    def __contains__(self, number: int) -> bool:
        return self._counts[number % _SLOTS] > 0


EngineSocket = tuple[socket.socket, RunningTextCounts]
"""One end of a connection to the engine, and the table of its running jobs."""


def handoff_pair() -> tuple[socket.socket, socket.socket]:
    """Return the HTTP processes' end for requests, and the engine's end, which accepts them.

    Requests wait in the socket while no engine runs.
    """
    requesting, accepting = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    requesting.setblocking(False)  # an event loop must not wait for space in the socket
    return requesting, accepting


def request_connection(connect_fd: int) -> EngineSocket:
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


def accept_connection(handoff: socket.socket) -> EngineSocket:
    """Return the engine's end of the oldest requested connection; waits for a request.

    handoff: the engine's end of the handoff pair.
    """
    _, [connection_fd, table_fd], *_ = socket.recv_fds(handoff, 16, 2)
    os.set_inheritable(connection_fd, False)
    running = RunningTextCounts.attach(table_fd)
    os.close(table_fd)
    return socket.socket(fileno=connection_fd), running
