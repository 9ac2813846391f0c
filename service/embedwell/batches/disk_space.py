"""Disk space of the folder of batches, which several processes use at once."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from embedwell.batches.folder import SPACE_LOCK
from embedwell.errors import TooLarge

_BLOCK = 1 << 12  # bytes; a file takes whole blocks of a disk


class DiskSpace:
    """The disk space that a folder takes, and its limit.

    Processes check and reserve under one lock, so that several cannot exceed the limit together. A
    reservation is a file of that size.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        """limit: maximum bytes of the folder's files."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._limit = folder, limit

    @contextlib.contextmanager
    def room_for(self, size: int) -> Iterator[None]:
        """Let no other process reserve while the block writes; raises TooLarge without room."""
        with self._locked():
            self._check(self.used(), size)
            yield

    def extend(self, path: Path, size: int, wanted: int) -> int:
        """Make a file at least so large, and as large as wanted if there is room; return its size.

        The new bytes are a hole, which takes no room before it is written. Raises TooLarge.
        """
        with self._locked():
            used = self.used() - (_blocks(path.stat().st_size) if path.exists() else 0)
            self._check(used, size)
            granted = max(size, min(wanted, self._limit - used))
            with path.open("ab") as file:
                file.truncate(granted)
        return granted

    def used(self) -> int:
        """Return the bytes of all files; those of several hard links count once."""
        sizes: dict[int, int] = {}
        for folder, _, names in os.walk(self._folder):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    status = os.lstat(f"{folder}/{name}")
                    sizes[status.st_ino] = _blocks(status.st_size)
        return sum(sizes.values())

    def _check(self, used: int, size: int) -> None:
        if used + size > self._limit:
            raise TooLarge(
                f"the files take {used} of {self._limit} bytes, and {size} more do not fit; "
                "delete files, or raise EMBEDWELL_BATCH_MAX_BYTES",
                code="storage_full",
            )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._folder / SPACE_LOCK).open("wb") as file:  # closing unlocks it, even a kill
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _blocks(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
