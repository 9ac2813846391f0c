"""The batches in a folder."""

import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from embedwell.batches.batch import FINAL, Batch, StoredBatch
from embedwell.batches.file_store import FileStore
from embedwell.batches.ids import BATCH, is_id, new_id
from embedwell.batches.json_file import read_json, write_json
from embedwell.batches.limits import BatchLimits
from embedwell.errors import NotFound


class BatchStore:
    """A folder of batches. Any process creates and cancels them; only the runner changes them."""

    def __init__(self, folder: Path, files: FileStore, limits: BatchLimits) -> None:
        """files: the files with the requests of batches."""
        self._folder, self._files, self._limits = folder, files, limits
        self._ended: set[str] = set()  # batches that `next` need not read again
        folder.mkdir(parents=True, exist_ok=True)

    def create(
        self,
        input_file_id: str,
        endpoint: str,
        completion_window: tuple[str, int],
        metadata: Mapping[str, str] | None,
    ) -> Batch:
        """Create a batch; raises NotFound if the file does not exist.

        completion_window: the time limit of the batch, as the client wrote it and in seconds.
        """
        content, id, now = self._files.content(input_file_id), new_id(BATCH), int(time.time())
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
        os.link(content, folder / "input.jsonl")  # the link remains if the client deletes the file
        self.save(StoredBatch(batch=batch))
        return batch

    def folder(self, id: str) -> Path:
        """Return the path of a batch's folder."""
        return self._folder / id

    def load_stored(self, id: str) -> StoredBatch:
        """Return a saved batch with the runner's data; raises NotFound."""
        fields = read_json(self.folder(id) / "batch.json") if is_id(id, BATCH) else None
        if fields is None:
            raise NotFound(f"there is no batch {id!r}", code="batch_not_found", param="id")
        return StoredBatch(**fields)

    def get(self, id: str) -> Batch:
        """Return a batch as clients see it, perhaps as cancelling; raises NotFound."""
        return self._seen(self.load_stored(id).batch)

    def all(self) -> list[Batch]:
        """Return all batches as clients see them, newest first."""
        stored = self._stored(sorted(self._ids(), reverse=True))
        return [self._seen(item.batch) for item in stored]

    def save(self, stored: StoredBatch) -> None:
        """Replace the saved data of a batch."""
        write_json(self.folder(stored.batch.id) / "batch.json", stored.model_dump())

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

    def next(self) -> StoredBatch | None:
        """Return the oldest batch that is unfinished."""
        for stored in self._stored(sorted({*self._ids()} - self._ended)):
            if stored.batch.status not in FINAL:
                return stored
            self._ended.add(stored.batch.id)
        return None

    def remove_expired(self) -> None:
        """Delete batches that ended and have been kept for the retention time."""
        oldest = time.time() - self._limits.retention
        for batch in [stored.batch for stored in self._stored([*self._ids()])]:
            if batch.status in FINAL and batch.expires_at <= oldest:
                shutil.rmtree(self.folder(batch.id), ignore_errors=True)
                self._ended.discard(batch.id)

    def _seen(self, batch: Batch) -> Batch:
        cancelled = self.cancelled_at(batch.id)
        if cancelled is not None and batch.status not in FINAL:
            batch.status, batch.cancelling_at = "cancelling", cancelled
        return batch

    def _stored(self, ids: Iterable[str]) -> Iterator[StoredBatch]:
        for id in ids:
            fields = read_json(self.folder(id) / "batch.json")
            if fields is not None:  # None if it was removed meanwhile
                yield StoredBatch(**fields)

    def _ids(self) -> Iterator[str]:
        return (path.parent.name for path in self._folder.glob(f"{BATCH}*/batch.json"))
