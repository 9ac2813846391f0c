"""Accept connections of a socket that several processes may listen on."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_MAX_WAITING = 4096  # connections that wait; more come while they are accepted
_PAUSE = 1.0  # seconds until the next attempt if the system has no descriptor or memory left


class Acceptor:
    """Accepts one connection at a time, so that those of a burst spread over the processes."""

    def __init__(
        self, listener: socket.socket, create_protocol: Callable[[], asyncio.Protocol]
    ) -> None:
        listener.setblocking(False)
        self._listener, self._create_protocol = listener, create_protocol
        self._loop = asyncio.get_running_loop()
        self._opening = set[asyncio.Task[None]]()

    def start(self) -> None:
        """Accept connections from now on."""
        if self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._accept)

    async def drain(self, shared: bool = False, most: int = _MAX_WAITING) -> None:
        """Accept the connections that wait, and close the socket.

        The system refuses those that come later, if it is a Unix socket on Linux.

        shared: whether other processes accept those that come later.
        most: maximum number to accept, as clients may connect as fast as they are accepted.
        """
        if self._listener.fileno() < 0:
            return
        if self._listener.family == socket.AF_UNIX and not shared:
            with contextlib.suppress(OSError):  # of systems on which it does not exist
                self._listener.shutdown(socket.SHUT_RD)
        while most and self._accept():
            most -= 1
        self.close()
        while self._opening:
            await asyncio.wait(self._opening)

    def close(self) -> None:
        """Close the socket; connections that wait are left to other processes that have it."""
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener)
            self._listener.close()

    def _accept(self) -> bool:
        """Accept a connection; return whether there was one."""
        try:
            accepted, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return False  # another process was faster, or the client has gone
        except OSError as error:
            self._loop.remove_reader(self._listener)  # another process may have shut it down
            if error.errno in _EXHAUSTED:
                self._loop.call_later(_PAUSE, self.start)
            return False
        accepted.setblocking(False)
        task = self._loop.create_task(self._open(accepted))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        return True

    async def _open(self, accepted: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the client has gone
            await self._loop.connect_accepted_socket(self._create_protocol, accepted)
