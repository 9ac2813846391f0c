"""Listening sockets that systemd or launchd hands over to the service that it starts.

https://www.freedesktop.org/software/systemd/man/latest/sd_listen_fds.html
https://developer.apple.com/documentation/xpc/launch_activate_socket
"""

import ctypes
import errno
import os
import socket
import sys
from collections.abc import MutableMapping

LAUNCHD_NAME = "embedwell"
"""Key of the socket in the agent's file."""

_FIRST_DESCRIPTOR = 3
_PID, _COUNT, _NAMES = "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"
_FAMILIES = (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)


def handed_over_listeners() -> list[socket.socket]:
    """Take the sockets that were handed over to this process, if any.

    Raises OSError for a descriptor of another kind.
    """
    if sys.platform == "darwin":
        return launchd_listeners(ctypes.CDLL(None))
    return systemd_listeners(os.environ)


def systemd_listeners(variables: MutableMapping[str, str]) -> list[socket.socket]:
    """Take the sockets of systemd; raises OSError for a descriptor of another kind.

    variables: those that describe the sockets are removed, as child processes do not inherit these.
    """
    pid, count, names = (variables.pop(name, "") for name in (_PID, _COUNT, _NAMES))
    if pid != str(os.getpid()) or not count.isdecimal():
        return []
    named = dict(enumerate(names.split(":")))
    remedy = "in the socket unit, use ListenStream= with Accept=no"
    return [
        _listener(_FIRST_DESCRIPTOR + index, f"({named.get(index, 'unnamed')}) of {_COUNT}", remedy)
        for index in range(int(count))
    ]


def launchd_listeners(library: ctypes.CDLL) -> list[socket.socket]:
    """Take the sockets of launchd; raises OSError if they cannot be taken.

    library: has launch_activate_socket, as macOS's system library.
    """
    descriptors, count = ctypes.POINTER(ctypes.c_int)(), ctypes.c_size_t()
    status = library.launch_activate_socket(
        LAUNCHD_NAME.encode(), ctypes.byref(descriptors), ctypes.byref(count)
    )
    if status in (errno.ESRCH, errno.ENOENT):  # not started by launchd, or without a socket
        return []
    if status:
        raise OSError(status, f"launchd does not hand over its socket: {os.strerror(status)}")
    remedy = "in the agent's file, use SockType stream"
    try:
        taken = descriptors[: count.value]
        return [_listener(each, f"({LAUNCHD_NAME}) of launchd", remedy) for each in taken]
    finally:
        library.free(descriptors)


def _listener(descriptor: int, origin: str, remedy: str) -> socket.socket:
    try:
        os.set_inheritable(descriptor, False)
        handed_over = socket.socket(fileno=descriptor)
        is_stream = handed_over.type == socket.SOCK_STREAM and handed_over.family in _FAMILIES
        listens = handed_over.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError:
        is_stream = listens = False
    if not (is_stream and listens):
        raise OSError(
            f"descriptor {descriptor} {origin} is not a listening socket of TCP or Unix; {remedy}"
        )
    return handed_over
