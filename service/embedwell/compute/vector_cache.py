"""LRU cache of vectors, for texts that are sent repeatedly."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from embedwell.engine.wire.messages import EngineDescription, Job, Result, is_hidden_state
from embedwell.errors import reindexed
from embedwell_models.encoder.batch import FlatRows
from embedwell_models.vectors import Floats

Key = tuple[bytes, str | int, int, str]
"""Token ids, output, count of ids that are not pooled, and the model's fingerprint."""

_ENTRY_OVERHEAD = 400  # bytes of an entry's Python objects


class JobEngine(Protocol):
    """An engine that computes jobs, see ReplayingEngine.

    description: describes the engine that would compute the next job.
    """

    @property
    def description(self) -> EngineDescription | None: ...

    async def submit(self, job: Job, timeout: float) -> Result: ...


@dataclass(slots=True)
class PlannedJob:
    """A job whose cached vectors are looked up.

    tokens: those that the engine has to compute. compute: computes the job within some seconds, and
    raises like the engine.
    """

    tokens: int
    compute: Callable[[float], Awaitable[Result]]


class VectorCache:
    """Returns cached vectors, and computes the others.

    The least recently used entries are evicted. Hidden states are not cached.
    """

    def __init__(self, engine: JobEngine, size: int) -> None:
        """size: maximum bytes of all entries."""
        self._engine, self._size, self._used = engine, size, 0
        self._vectors: OrderedDict[Key, Floats] = OrderedDict()

    def plan(self, job: Job) -> PlannedJob:
        """Look up the texts of a job; each distinct text that is not cached is computed once."""
        if is_hidden_state(job.output):
            return PlannedJob(job.tokens, partial(self._engine.submit, job))
        description = self._engine.description  # a later engine may have another precision
        fingerprint = description.fingerprint if description else ""
        rows = zip(job.texts_ids, _prompt_token_counts(job), strict=True)
        keys = [(row.tobytes(), job.output, count, fingerprint) for row, count in rows]
        cached = {key: self._vectors[key] for key in keys if key in self._vectors}
        missing = {key: position for position, key in enumerate(keys) if key not in cached}
        lengths = job.lengths
        tokens = sum(lengths[position] for position in missing.values())
        return PlannedJob(tokens, partial(self._compute, job, keys, cached, missing))

    async def _compute(
        self,
        job: Job,
        keys: Sequence[Key],
        cached: Mapping[Key, Floats],
        missing: Mapping[Key, int],
        timeout: float,
    ) -> Result:
        vectors = dict(cached)
        result = Result(np.empty((0, 0), dtype=np.float32), 0, 0, 0.0)
        if missing:
            result = await self._submit(job, list(missing.values()), timeout)
            vectors |= zip(missing, result.split(), strict=True)
        self._store((key, vectors[key]) for key in keys)
        parts = [vectors[key] for key in keys]
        return replace(
            result,
            vectors=np.concatenate(parts),
            row_counts=[*map(len, parts)] if job.is_packed else (),
            cached=len(keys) - len(missing),
        )

    async def _submit(self, job: Job, missing: Sequence[int], timeout: float) -> Result:
        rows = FlatRows.of([job.texts_ids[position] for position in missing])
        counts = _prompt_token_counts(job)
        counts = [counts[position] for position in missing]
        part = replace(job, texts_ids=rows, prompt_token_counts=counts)
        with reindexed(missing):
            return await self._engine.submit(part, timeout)

    def _store(self, vectors: Iterable[tuple[Key, Floats]]) -> None:
        for key, vector in vectors:
            if key not in self._vectors:
                self._vectors[key] = vector.copy()  # a view would keep the whole batch alive
                self._used += _entry_size(key, vector)
            self._vectors.move_to_end(key)
        while self._used > self._size:
            self._used -= _entry_size(*self._vectors.popitem(last=False))


def _prompt_token_counts(job: Job) -> Sequence[int]:
    return job.prompt_token_counts or [0] * len(job.texts_ids)


def _entry_size(key: Key, vector: Floats) -> int:
    return len(key[0]) + vector.nbytes + _ENTRY_OVERHEAD
