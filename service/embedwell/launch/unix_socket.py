"""A Unix socket that a server listens on, with its file."""

import fcntl
import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

_LOCK_SECONDS, _LOCK_POLL = 5.0, 0.01
_ONLY_OWNER = 0o177  # the umask of files with permissions 0600


class UnixListener(socket.socket):
    """A listening Unix socket to which only this user connects; closing it removes its file."""

    def __init__(self, path: Path, backlog: int) -> None:
        """Listen, in place of a server that has ended without removing the file; raises OSError."""
        super().__init__(socket.AF_UNIX, socket.SOCK_STREAM)
        self._path, self._file = path.absolute(), (0, 0)
        try:
            with _locked(self._path.parent):
                _remove_stale(self._path)
                self._bind_and_listen(backlog)
        except OSError as error:
            super().close()
            reason = error.strerror or error
            raise OSError(
                f"cannot listen on {path}: {reason}; choose another path with --unix-socket"
            ) from None

    def close(self) -> None:
        """Remove the file, unless another server has replaced it, and close the socket."""
        if self.fileno() >= 0:
            with suppress(OSError), _locked(self._path.parent):
                if self._identity() == self._file:
                    self._path.unlink()
        super().close()

    def _bind_and_listen(self, backlog: int) -> None:
        umask = os.umask(_ONLY_OWNER)
        try:
            self.bind(str(self._path))
        finally:
            os.umask(umask)
        self._file = self._identity()
        self.listen(backlog)

    def _identity(self) -> tuple[int, int]:
        """Return what tells the file from any other, as long as this socket is open."""
        status = self._path.lstat()
        return status.st_dev, status.st_ino


def _remove_stale(path: Path) -> None:
    """Remove the socket of a server that has ended; raises OSError for any other file."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError("this file is not a socket")
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as client:
        client.setblocking(False)
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except BlockingIOError:  # many clients wait to be accepted
            pass
    raise OSError("another server listens on it")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder, so that of servers that start at once only one replaces a file.

    Raises OSError.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise OSError(f"another program has locked {folder}") from None
                time.sleep(_LOCK_POLL)
        yield
    finally:
        os.close(descriptor)
