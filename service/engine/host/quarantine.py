"""The texts of which an engine died: none of a server's processes gives them to another one."""

import time
from collections.abc import Callable
from hashlib import blake2b

from service.engine.protocol.messages import Ids, Job
from service.process.shared_counters import SharedCounters

_SECONDS = 600.0
_MOST = 64  # of each HTTP process


class Quarantine:
    """Remembers hashes of texts for ten minutes, of the latest 64 of each HTTP process.

    They lie in shared memory: a client's next attempt may come to another process.
    """

    def __init__(
        self, counters: SharedCounters, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._counters, self._clock = counters, clock
        self._added = counters.allocate()
        self._hashes, self._ends = counters.allocate(_MOST), counters.allocate(_MOST)
        self._read, self._until = 0, dict[float, float]()

    @property
    def added(self) -> int:
        """How many texts were ever refused, in the whole server."""
        return int(self._counters.total(self._added))

    def add(self, job: Job) -> None:
        """Refuse the texts of a job from now on."""
        memory = self._counters.row
        for row in job.rows:
            slot = int(memory[self._added]) % _MOST
            memory[self._hashes + slot] = _hash(job, row)
            memory[self._ends + slot] = self._clock() + _SECONDS
            memory[self._added] += 1

    def find(self, job: Job) -> int | None:
        """The index of the first text of a job that is refused, if there is one."""
        if self._read != self.added:
            self._read, self._until = self.added, self._load()
        if not self._until:  # as it nearly always is
            return None
        now = self._clock()
        self._until = {text: end for text, end in self._until.items() if end > now}
        indices = (index for index, row in enumerate(job.rows) if _hash(job, row) in self._until)
        return next(indices, None)

    def _load(self) -> dict[float, float]:
        hashes = self._counters.values(self._hashes, _MOST)
        return dict(zip(hashes, self._counters.values(self._ends, _MOST), strict=True))


def _hash(job: Job, row: Ids) -> float:
    """48 bits, which a shared number holds exactly."""
    text = f"{job.output} ".encode() + row.tobytes()
    return float(int.from_bytes(blake2b(text, digest_size=6).digest()))
