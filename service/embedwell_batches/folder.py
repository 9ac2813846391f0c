"""The folder of batches: names, small JSON files, and the disk space that processes share."""

import contextlib
import fcntl
import logging
import os
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from embedwell.errors import TooLarge

log = logging.getLogger(__name__)

M = TypeVar("M", bound=BaseModel)

FILE_PREFIX, BATCH_PREFIX, REQUEST_PREFIX = "file-", "batch_", "batch_req_"
"""Beginnings of ids."""
_SPACE_LOCK_FILE = "space.lock"
"""Name of the file that a process locks while it reserves disk space."""
_DIGITS = re.compile(r"[0-9a-f]{24}")
_BLOCK = 1 << 12  # bytes; a file takes whole blocks of a disk


def new_id(prefix: str) -> str:
    """Create an id that sorts by its creation time."""
    return f"{prefix}{time.time_ns():016x}{secrets.token_hex(4)}"


def is_id(text: str, prefix: str) -> bool:
    """Return whether a text has the form of an id, so that it is safe as part of a path."""
    return text.startswith(prefix) and _DIGITS.fullmatch(text.removeprefix(prefix)) is not None


def newest_first(folder: Path, prefix: str, after: str = "") -> list[str]:
    """Return the ids that name a folder's entries, the newest first.

    after: only ids before this one in time; "" for all.
    """
    ids = [name for name in os.listdir(folder) if is_id(name, prefix)]
    return sorted((id for id in ids if not after or id < after), reverse=True)


def write_json(path: Path, content: BaseModel) -> None:
    """Replace a file atomically. Each file has one writer."""
    partial = path.with_name(f"{path.name}.new")
    with partial.open("wb") as file:
        file.write(content.model_dump_json().encode())
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def read_json(path: Path, kind: type[M]) -> M | None:
    """Read a file; None if it does not exist, or is damaged, which is logged."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        log.error("%s is damaged and ignored; delete its folder: %s", path, error)
        return None


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
        with (self._folder / _SPACE_LOCK_FILE).open(
            "wb"
        ) as file:  # closing unlocks it, even a kill
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _blocks(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
