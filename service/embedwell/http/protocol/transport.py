"""Connections beyond those of asyncio: accepting them, their state in the kernel, slow clients."""

import asyncio
import contextlib
import errno
import fcntl
import select
import socket
import sys
import termios
from collections.abc import Callable

from embedwell.http.http_limits import Timeouts

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


_END_OF_INPUT = getattr(select, "POLLRDHUP", 0)  # Linux only; others report POLLHUP
_TCP_INFO = getattr(socket, "TCP_INFO", 0) if sys.platform == "linux" else 0
_LAST_RECEIVED = 52  # offset of tcpi_last_data_recv in Linux's struct tcp_info
_MAX_DROPPED = 64 << 20  # bytes


def has_end_of_input(transport: asyncio.Transport) -> bool:
    """Return whether the other end has closed the connection, or its side of it."""
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), _END_OF_INPUT)
    return bool(poll.poll(0))


def seconds_unread(transport: asyncio.Transport) -> float:
    """Return the seconds since the last bytes arrived, in milliseconds' steps; 0 if unknown."""
    if not _TCP_INFO:
        return 0.0
    try:
        info = transport.get_extra_info("socket").getsockopt(
            socket.IPPROTO_TCP, _TCP_INFO, _LAST_RECEIVED + 4
        )
    except OSError:  # not TCP
        return 0.0
    return int.from_bytes(info[_LAST_RECEIVED:], sys.byteorder) / 1000


def unsent_bytes(transport: asyncio.Transport) -> int:
    """Return the bytes that the kernel buffers for the other end; 0 if that is unknown."""
    descriptor = transport.get_extra_info("socket").fileno()
    try:
        size = fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4))  # Linux's SIOCOUTQ: man 7 tcp
    except OSError:
        return 0
    return int.from_bytes(size, sys.byteorder)


class UnreadResponse:
    """The part of a response that the client has not read."""

    def __init__(self, transport: asyncio.Transport, timeouts: Timeouts) -> None:
        self._transport, self._timeouts, self._last_size = transport, timeouts, 0

    def begin(self) -> None:
        """Start the time limit for reading some of the response."""
        self._last_size = self._size()
        self._timeouts.begin(self)

    def end(self) -> None:
        """Record that the client has read all, or is gone."""
        self._timeouts.end(self)

    def expire(self) -> None:
        """Close the connection, unless some of the response was read in the meantime."""
        if self._size() < self._last_size:
            self.begin()
        else:
            self._transport.abort()

    def _size(self) -> int:
        # The kernel buffers some of it, and accepts more only when much of that is read.
        return self._transport.get_write_buffer_size() + unsent_bytes(self._transport)


class HalfClosed:
    """Half-closes a connection, and drops incoming bytes up to limits of time and size.

    After a full close, the system responds to incoming bytes with a reset. Clients and gateways
    then lose the response that they have not read yet:
    https://www.rfc-editor.org/rfc/rfc9112#section-9.6
    """

    def __init__(self, transport: asyncio.Transport, timeouts: Timeouts) -> None:
        self._transport, self._timeouts, self._remaining = transport, timeouts, _MAX_DROPPED
        transport.write_eof()
        timeouts.begin(self)

    def drop(self, data: bytes) -> None:
        """Drop incoming bytes."""
        self._remaining -= len(data)
        if self._remaining < 0:
            self._transport.abort()

    def expire(self) -> None:
        """Close the connection, unless the client is still reading, which has its own limit."""
        if self._transport.get_write_buffer_size():
            self._timeouts.begin(self)
        else:
            self._transport.abort()

    def end(self) -> None:
        """Record that the connection is closed."""
        self._timeouts.end(self)
