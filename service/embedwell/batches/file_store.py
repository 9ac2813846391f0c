"""The files of batches: uploaded requests, and results."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal

from pydantic import BaseModel

from embedwell.batches.ids import FILE, is_id, new_id
from embedwell.batches.json_file import read_json, write_json
from embedwell.batches.limits import BatchLimits
from embedwell.errors import NotFound, TooLarge

Purpose = Literal["batch", "batch_output"]


class StoredFile(BaseModel):
    """Description of a file in OpenAI's format. Times are in seconds since 1970."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int
    filename: str
    purpose: Purpose
    status: Literal["processed"] = "processed"


class FileStore:
    """A folder of files that several processes can use at once."""

    def __init__(self, folder: Path, limits: BatchLimits) -> None:
        self._folder, self._limits = folder, limits
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, source: IO[bytes], filename: str) -> StoredFile:
        """Store an upload of a client; raises TooLarge if the folder is full."""
        size = source.seek(0, os.SEEK_END)
        source.seek(0)
        self.check_space(size)
        file = self._describe(new_id(FILE), size, filename, "batch")
        folder = self._folder / file.id
        folder.mkdir()
        try:
            with (folder / "content").open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            write_json(folder / "file.json", file.model_dump())
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return file

    def adopt(self, path: Path, id: str, filename: str) -> None:
        """Move a file of results into the folder; does nothing if that was done before."""
        if path.exists():
            file = self._describe(id, path.stat().st_size, filename, "batch_output")
            (self._folder / id).mkdir(exist_ok=True)
            write_json(self._folder / id / "file.json", file.model_dump())
            path.replace(self._folder / id / "content")

    def get(self, id: str) -> StoredFile:
        """Return the description of a file; raises NotFound."""
        fields = read_json(self._folder / id / "file.json") if is_id(id, FILE) else None
        if fields is None:
            raise NotFound(f"there is no file {id!r}", code="file_not_found", param="id")
        return StoredFile(**fields)

    def content(self, id: str) -> Path:
        """Return the path of a file's content; raises NotFound."""
        return self._folder / self.get(id).id / "content"

    def all(self) -> list[StoredFile]:
        """Return all files, newest first."""
        return sorted(self._files(), key=lambda file: file.id, reverse=True)

    def remove(self, id: str) -> None:
        """Delete a file; raises NotFound."""
        shutil.rmtree(self._folder / self.get(id).id, ignore_errors=True)

    def remove_expired(self) -> None:
        """Delete the files that have been kept for the retention time."""
        for file in self._files():
            if file.expires_at <= time.time():
                self.remove(file.id)

    def check_space(self, size: int) -> None:
        """Raise TooLarge if the folder has no room for so many more bytes."""
        used = sum(file.bytes for file in self._files())
        if used + size > self._limits.folder_bytes:
            raise TooLarge(
                f"the files take {used} of {self._limits.folder_bytes} bytes, and {size} more "
                "do not fit; delete files, or raise EMBEDWELL_BATCH_MAX_BYTES",
                code="storage_full",
            )

    def _describe(self, id: str, size: int, filename: str, purpose: Purpose) -> StoredFile:
        now = time.time()
        return StoredFile(
            id=id,
            bytes=size,
            created_at=int(now),
            expires_at=int(now + self._limits.retention),
            filename=filename,
            purpose=purpose,
        )

    def _files(self) -> Iterator[StoredFile]:
        for folder in self._folder.iterdir():
            fields: Any = read_json(folder / "file.json")
            if fields is not None:
                yield StoredFile(**fields)
