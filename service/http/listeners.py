"""The sockets on which a server listens: one for each address of its host's name."""

import errno
import socket
from contextlib import ExitStack
from typing import Any

_BACKLOG = 2048  # connections that are not accepted yet; the system may allow fewer
# A name has addresses of kinds that a machine may lack: localhost where there is no IPv6.
_LACKING = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def claim(host: str, port: int) -> list[socket.socket]:
    """Those of a new server, on a port that no other one has, any for 0; raises OSError."""
    try:
        found = _open(host, port)
    except OSError as error:
        raise OSError(f"cannot listen on {host} port {port}: {error}") from None
    for listener in found:
        # Only now: with a listener's own option it would share the port with another server.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return found


def listeners(host: str, port: int) -> list[socket.socket]:
    """More sockets on a port that was claimed, for one more HTTP process; raises OSError.

    The system deals new connections out among all (SO_REUSEPORT). One that all processes share
    would leave most of the connections of a burst to whichever was awake.
    """
    return _open(host, port, reuse_port=True)


def _open(host: str, port: int, reuse_port: bool = False) -> list[socket.socket]:
    found: list[socket.socket] = []
    with ExitStack() as opened:
        for family, (name, _, *rest) in _addresses(host):
            place = (name, found[0].getsockname()[1] if found else port, *rest)
            try:
                listener = socket.create_server(
                    place, family=family, backlog=_BACKLOG, reuse_port=reuse_port
                )
            except OSError as error:
                if error.errno not in _LACKING:
                    raise
            else:
                found.append(opened.enter_context(listener))
        opened.pop_all()
    if not found:
        raise OSError(errno.EADDRNOTAVAIL, "it is no address of this machine")
    return found


def _addresses(host: str) -> list[tuple[int, tuple[Any, ...]]]:
    found = socket.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, address) for family, *_, address in found))
