"""The files of batches: uploaded requests, and results."""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal

from embedwell.errors import NotFound
from embedwell.http.field_descriptions import DescribedModel
from embedwell_batches.batch import BatchLimits
from embedwell_batches.folder import (
    FILE_PREFIX,
    DiskSpace,
    is_id,
    new_id,
    newest_first,
    read_json,
    write_json,
)

_MAX_STEP = 8 << 20  # bytes that an upload reserves ahead
_ABANDONED = 3600.0  # seconds after which an upload without an end was cut off by a kill

Purpose = Literal["batch", "batch_output"]


class StoredFile(DescribedModel):
    """Description of a file in OpenAI's format. Times are in seconds since 1970.

    - `id`: name of the file, for `/v1/files/{id}`.
    - `object`: always `file`.
    - `bytes`: size of the file in bytes.
    - `created_at`: time at which the file was uploaded or written.
    - `expires_at`: time at which the file is deleted.
    - `filename`: name that the client gave the file.
    - `purpose`: `batch` for requests, `batch_output` for results.
    - `status`: always `processed`.
    """

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int
    filename: str
    purpose: Purpose
    status: Literal["processed"] = "processed"


class Upload:
    """A file that a client is sending. It reserves disk space before the bytes are written."""

    def __init__(self, store: "FileStore", folder: Path, space: DiskSpace) -> None:
        self._store, self._folder, self._space = store, folder, space
        self._content = folder / "content"
        self.reserved = 0
        folder.mkdir()

    def reserve(self, size: int) -> None:
        """Reserve so many bytes in all, and some more; raises TooLarge if the folder is full."""
        ahead = min(size, _MAX_STEP)
        self.reserved = self._space.extend(self._content, size, size + ahead)

    def finish(self, source: IO[bytes], filename: str) -> StoredFile:
        """Store the received bytes as a file."""
        size = source.seek(0, os.SEEK_END)
        source.seek(0)
        self.reserve(size)
        with self._content.open("rb+") as target:
            shutil.copyfileobj(source, target, 1 << 20)
            target.truncate(size)
        return self._store.describe(self._folder, size, filename, "batch")

    def discard(self) -> None:
        """Delete what was received."""
        shutil.rmtree(self._folder, ignore_errors=True)


class FileStore:
    """A folder of files that several processes can use at once."""

    def __init__(self, folder: Path, limits: BatchLimits, space: DiskSpace) -> None:
        """space: the disk space of the folder and of the batches."""
        self._folder, self._limits, self.space = folder, limits, space
        folder.mkdir(parents=True, exist_ok=True)

    def upload(self) -> Upload:
        """Begin the upload of a file, which the caller finishes or discards."""
        return Upload(self, self._folder / new_id(FILE_PREFIX), self.space)

    def adopt(self, path: Path, id: str, filename: str, seconds: int | None = None) -> None:
        """Move a file of results into the folder; does nothing if that was done before.

        seconds: for which the file is kept, if that is shorter than the retention time.
        """
        if path.exists():
            folder = self._folder / id
            folder.mkdir(exist_ok=True)
            self.describe(folder, path.stat().st_size, filename, "batch_output", seconds)
            path.replace(folder / "content")

    def describe(
        self,
        folder: Path,
        size: int,
        filename: str,
        purpose: Purpose,
        seconds: int | None = None,
    ) -> StoredFile:
        """Write the description of a file, which then exists for clients; seconds: see `adopt`."""
        now, retention = time.time(), self._limits.retention
        file = StoredFile(
            id=folder.name,
            bytes=size,
            created_at=int(now),
            expires_at=int(now + min(retention, retention if seconds is None else seconds)),
            filename=filename,
            purpose=purpose,
        )
        write_json(folder / "file.json", file)
        return file

    def get(self, id: str) -> StoredFile:
        """Return the description of a file; raises NotFound."""
        file = self._load(id) if is_id(id, FILE_PREFIX) else None
        if file is None:
            raise NotFound(f"there is no file {id!r}", code="file_not_found", param="id")
        return file

    def content(self, id: str) -> Path:
        """Return the path of a file's content; raises NotFound."""
        return self._folder / self.get(id).id / "content"

    def newest_first(self, after: str = "") -> Iterator[StoredFile]:
        """Read the files one by one, the newest first.

        after: id of a file; only those before it in time are read.
        """
        for id in newest_first(self._folder, FILE_PREFIX, after):
            if (file := self._load(id)) is not None:
                yield file

    def remove(self, id: str) -> None:
        """Delete a file; raises NotFound."""
        shutil.rmtree(self._folder / self.get(id).id, ignore_errors=True)

    def remove_expired(self) -> None:
        """Delete files that have been kept for the retention time, and abandoned uploads."""
        for file in self.newest_first():
            if file.expires_at <= time.time():
                self.remove(file.id)
        remove_abandoned(self._folder, "file.json")

    def _load(self, id: str) -> StoredFile | None:
        return read_json(self._folder / id / "file.json", StoredFile)


def remove_abandoned(folder: Path, description: str) -> None:
    """Delete old folders in a folder that lack their description: a kill cut them off."""
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process removed it
            changed = max(item.stat().st_mtime for item in (path, *path.iterdir()))
            if changed < time.time() - _ABANDONED and not (path / description).exists():
                shutil.rmtree(path, ignore_errors=True)
