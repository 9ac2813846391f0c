"""Quarantine for texts that crashed an engine; no HTTP process submits them again."""

import time
from collections.abc import Callable
from hashlib import blake2b

from embedwell.engine.wire.messages import Job, TokenIds
from embedwell.engine.wire.shared_counters import SharedCounters

_SECONDS = 600.0
_MAX_TEXTS = 64  # texts of each HTTP process


class Quarantine:
    """Stores hashes of the latest 64 texts of each HTTP process for ten minutes.

    They are in shared memory, because a client's next attempt may reach another process.
    """

    def __init__(
        self, counters: SharedCounters, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._counters, self._clock = counters, clock
        self._added = counters.allocate()
        self._hashes, self._ends = counters.allocate(_MAX_TEXTS), counters.allocate(_MAX_TEXTS)
        self._loaded, self._end_by_hash = 0, dict[float, float]()

    @property
    def added(self) -> int:
        """Number of texts quarantined since the start, in all processes."""
        return int(self._counters.total(self._added))

    def add(self, job: Job) -> None:
        """Quarantine the texts of a job."""
        counters = self._counters.row
        for ids in job.texts_ids:
            slot = int(counters[self._added]) % _MAX_TEXTS
            counters[self._hashes + slot] = _hash(job, ids)
            counters[self._ends + slot] = self._clock() + _SECONDS
            counters[self._added] += 1

    def find(self, job: Job) -> int | None:
        """Return the index of the first quarantined text of a job, or None."""
        if self._loaded != self.added:
            self._loaded, self._end_by_hash = self.added, self._load()
        if not self._end_by_hash:  # the usual case, without computing hashes
            return None
        now = self._clock()
        self._end_by_hash = {text: end for text, end in self._end_by_hash.items() if end > now}
        hashes = (_hash(job, ids) for ids in job.texts_ids)
        return next((i for i, text in enumerate(hashes) if text in self._end_by_hash), None)

    def _load(self) -> dict[float, float]:
        read = self._counters.slots_of_all_rows
        return dict(zip(read(self._hashes, _MAX_TEXTS), read(self._ends, _MAX_TEXTS), strict=True))


def _hash(job: Job, ids: TokenIds) -> float:
    """Hash a text to 48 bits, which a float64 of the shared counters represents exactly."""
    text = f"{job.output} ".encode() + ids.tobytes()
    return float(int.from_bytes(blake2b(text, digest_size=6).digest()))
