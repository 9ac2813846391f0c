"""Listening sockets that systemd hands over to the service that it starts.

https://www.freedesktop.org/software/systemd/man/latest/sd_listen_fds.html
"""

import os
import socket
from collections.abc import MutableMapping

_FIRST_DESCRIPTOR = 3
_PID, _COUNT, _NAMES = "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"
_FAMILIES = (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)


def handed_over_listeners(
    variables: MutableMapping[str, str] = os.environ,
) -> list[socket.socket]:
    """Take the sockets that were handed over to this process, if any.

    Raises OSError for a descriptor of another kind.

    variables: those that describe the sockets are removed, as child processes do not inherit these.
    """
    pid, count, names = (variables.pop(name, "") for name in (_PID, _COUNT, _NAMES))
    if pid != str(os.getpid()) or not count.isdecimal():
        return []
    named = dict(enumerate(names.split(":")))
    return [_listener(_FIRST_DESCRIPTOR + index, named.get(index)) for index in range(int(count))]


def _listener(descriptor: int, name: str | None) -> socket.socket:
    try:
        os.set_inheritable(descriptor, False)
        handed_over = socket.socket(fileno=descriptor)
        is_stream = handed_over.type == socket.SOCK_STREAM and handed_over.family in _FAMILIES
        listens = handed_over.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError:
        is_stream = listens = False
    if not (is_stream and listens):
        raise OSError(
            f"descriptor {descriptor} ({name or 'unnamed'}) of {_COUNT} is not a listening socket "
            "of TCP or Unix; in the socket unit, use ListenStream= with Accept=no"
        )
    return handed_over
