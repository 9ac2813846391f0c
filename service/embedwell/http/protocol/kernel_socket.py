"""The state of a connection in the kernel, which a busy event loop has not noticed yet."""

import asyncio
import fcntl
import select
import socket
import sys
import termios

_END_OF_INPUT = getattr(select, "POLLRDHUP", 0)  # Linux only; others report POLLHUP
_TCP_INFO = getattr(socket, "TCP_INFO", 0) if sys.platform == "linux" else 0
_LAST_RECEIVED = 52  # offset of tcpi_last_data_recv in Linux's struct tcp_info


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
