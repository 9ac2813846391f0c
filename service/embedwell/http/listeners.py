"""Listening sockets: one for each address of the host name."""

import errno
import socket
from contextlib import ExitStack
from typing import Any

_BACKLOG = 2048  # connections not accepted yet; the system may allow fewer
# Errors for an address family that the machine lacks, such as localhost without IPv6.
_UNAVAILABLE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def open_exclusive(host: str, port: int) -> list[socket.socket]:
    """Listen on a port that no other server uses, on any free port for 0; raises OSError."""
    try:
        sockets = _open(host, port)
    except OSError as error:
        raise OSError(
            f"cannot listen on {host} port {port}: {error}; choose others with --host or --port"
        ) from None
    for listener in sockets:
        # SO_REUSEPORT set before bind would share the port with another server.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return sockets


def open_shared(host: str, port: int) -> list[socket.socket]:
    """Listen on the port of `open_exclusive` for one more HTTP process; raises OSError.

    The system distributes new connections over the processes (SO_REUSEPORT). With one shared socket
    most connections of a burst would go to the process that is awake.
    """
    return _open(host, port, reuse_port=True)


def _open(host: str, port: int, reuse_port: bool = False) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    with ExitStack() as opened:
        for family, (name, _, *rest) in _addresses(host):
            address = (name, sockets[0].getsockname()[1] if sockets else port, *rest)
            try:
                listener = socket.create_server(
                    address, family=family, backlog=_BACKLOG, reuse_port=reuse_port
                )
            except OSError as error:
                if error.errno not in _UNAVAILABLE:
                    raise
            else:
                sockets.append(opened.enter_context(listener))
        opened.pop_all()
    if not sockets:
        raise OSError(errno.EADDRNOTAVAIL, "this machine has no such address")
    return sockets


def _addresses(host: str) -> list[tuple[int, tuple[Any, ...]]]:
    infos = socket.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, address) for family, *_, address in infos))
