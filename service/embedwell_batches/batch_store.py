"""The batches in a folder."""

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from embedwell.errors import NotFound
from embedwell_batches.batch import FINAL, Batch, BatchLimits, StoredBatch
from embedwell_batches.file_store import FileStore, remove_abandoned
from embedwell_batches.folder import (
    BATCH_PREFIX,
    is_id,
    new_id,
    newest_first,
    read_json,
    write_json,
)

_SAVED_BYTES = 1 << 12  # approximate bytes of a saved batch


class BatchStore:
    """A folder of batches. Any process creates and cancels them; only the runner changes them."""

    def __init__(self, folder: Path, files: FileStore, limits: BatchLimits) -> None:
        """files: the files with the requests of batches."""
        self._folder, self._files, self._limits = folder, files, limits
        # The runner reads each batch once to know which are unfinished, and when those expire.
        self._expiry: dict[str, int] = {}
        self._ended: set[str] = set()
        folder.mkdir(parents=True, exist_ok=True)

    def create(
        self,
        input_file_id: str,
        endpoint: str,
        completion_window: tuple[str, int],
        metadata: Mapping[str, str] | None,
        output_seconds: int | None = None,
    ) -> Batch:
        """Create a batch; raises NotFound if the file does not exist, and TooLarge without room.

        completion_window: the time limit of the batch, as the client wrote it and in seconds.
        output_seconds: see StoredBatch.
        """
        content, id, now = (
            self._files.content(input_file_id),
            new_id(BATCH_PREFIX),
            int(time.time()),
        )
        batch = Batch(
            id=id,
            endpoint=endpoint,
            input_file_id=input_file_id,
            completion_window=completion_window[0],
            created_at=now,
            expires_at=now + completion_window[1],
            metadata=None if metadata is None else dict(metadata),
        )
        folder = self.folder(id)
        folder.mkdir()
        try:
            os.link(content, folder / "input.jsonl")  # it remains if the client deletes the file
            with self._files.space.room_for(_SAVED_BYTES):
                self.save(StoredBatch(batch=batch, output_seconds=output_seconds))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return batch

    def folder(self, id: str) -> Path:
        """Return the path of a batch's folder."""
        return self._folder / id

    def load_stored(self, id: str) -> StoredBatch:
        """Return a saved batch with the runner's data; raises NotFound."""
        stored = self._load(id) if is_id(id, BATCH_PREFIX) else None
        if stored is None:
            raise NotFound(f"there is no batch {id!r}", code="batch_not_found", param="id")
        return stored

    def get(self, id: str) -> Batch:
        """Return a batch as clients see it, perhaps as cancelling; raises NotFound."""
        return self._seen(self.load_stored(id).batch)

    def newest_first(self, after: str = "") -> Iterator[Batch]:
        """Read the batches one by one as clients see them, the newest first.

        after: id of a batch; only those before it in time are read.
        """
        for id in newest_first(self._folder, BATCH_PREFIX, after):
            if (stored := self._load(id)) is not None:
                yield self._seen(stored.batch)

    def save(self, stored: StoredBatch) -> None:
        """Replace the saved data of a batch."""
        write_json(self.folder(stored.batch.id) / "batch.json", stored)

    def cancel(self, id: str) -> Batch:
        """Request that the runner ends a batch early; does nothing for a batch that has ended."""
        if self.get(id).status not in FINAL:
            (self.folder(id) / "cancel").touch(exist_ok=True)
        return self.get(id)

    def cancelled_at(self, id: str) -> int | None:
        """Return the time at which a client cancelled a batch, if any did."""
        try:
            return int((self.folder(id) / "cancel").stat().st_mtime)
        except FileNotFoundError:
            return None

    def unfinished(self) -> list[tuple[str, int]]:
        """Return the unfinished batches that can be read and when they expire, oldest first."""
        ids = {*newest_first(self._folder, BATCH_PREFIX)}
        self._ended &= ids
        self._expiry = {id: self._expiry[id] for id in self._expiry.keys() & ids}
        for id in ids - self._ended - self._expiry.keys():
            if (self.folder(id) / "batch.json").exists():  # else it is being created
                self._note(id, self._load(id))
        return sorted(self._expiry.items())

    def _note(self, id: str, stored: StoredBatch | None) -> None:
        if stored is None or stored.batch.status in FINAL:
            self._ended.add(id)
            self._expiry.pop(id, None)
        else:
            self._expiry[id] = stored.batch.expires_at

    def note_changed(self, id: str) -> None:
        """Read again whether a batch has ended."""
        self._note(id, self._load(id))

    def remove_expired(self) -> None:
        """Delete batches that ended and have been kept for the retention time."""
        oldest = time.time() - self._limits.retention
        for batch in self.newest_first():
            if batch.status in FINAL and batch.expires_at <= oldest:
                shutil.rmtree(self.folder(batch.id), ignore_errors=True)
        remove_abandoned(self._folder, "batch.json")

    def _seen(self, batch: Batch) -> Batch:
        cancelled = self.cancelled_at(batch.id)
        if cancelled is not None and batch.status not in FINAL:
            batch.status, batch.cancelling_at = "cancelling", cancelled
        return batch

    def _load(self, id: str) -> StoredBatch | None:
        return read_json(self.folder(id) / "batch.json", StoredBatch)
