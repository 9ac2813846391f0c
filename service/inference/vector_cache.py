"""Vectors of texts that come again, so that the engine need not compute them again."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from models.vectors import Floats
from service.engine.protocol.messages import POOLED, Description, Job, Result
from service.errors import EncodingFailed

Key = tuple[bytes, int]  # the token ids of a text, and how many of them are not pooled

_BESIDE = 400  # bytes that Python takes for an entry beside its numbers


class Engine(Protocol):
    """Whatever computes; description: what of, another one when it was started again."""

    @property
    def description(self) -> Description | None: ...

    async def submit(self, job: Job, timeout: float) -> Result: ...


class Cache:
    """An engine in front of another, which is asked only for vectors that are not at hand.

    They are those of the very same token ids, and the least recently used ones make room. Hidden
    states are not kept.
    """

    def __init__(self, engine: Engine, size: int) -> None:
        """size: bytes that it may take."""
        self._engine, self._size, self._used = engine, size, 0
        self._vectors: OrderedDict[Key, Floats] = OrderedDict()
        self._described = engine.description

    async def submit(self, job: Job, timeout: float) -> Result:
        """The vectors of a job; raises what the engine raises."""
        if job.output != POOLED:
            return await self._engine.submit(job, timeout)
        self._renew()
        keys = _keys(job)
        found = {key: self._vectors[key] for key in keys if key in self._vectors}
        places = {key: place for place, key in enumerate(keys) if key not in found}
        result = Result(np.empty((0, 0), dtype=np.float32), 0, 0, 0.0)
        if places:
            result = await self._ask(job, list(places.values()), timeout)
            found |= zip(places, result.vectors, strict=True)
        self._keep((key, found[key]) for key in keys)
        whole = np.stack([found[key] for key in keys])
        return replace(result, vectors=whole, cached=len(keys) - len(places))

    def load(self, job: Job) -> int:
        """Tokens that are computed for a job: of texts that are not at hand, each once."""
        if job.output != POOLED:
            return job.tokens
        self._renew()
        sizes = zip(_keys(job), map(len, job.rows), strict=True)
        return sum({key: size for key, size in sizes if key not in self._vectors}.values())

    async def _ask(self, job: Job, places: Sequence[int], timeout: float) -> Result:
        rows, skips = [job.rows[place] for place in places], _skips(job)
        part = replace(job, rows=rows, skips=[skips[place] for place in places])
        try:
            return await self._engine.submit(part, timeout)
        except EncodingFailed as error:
            if error.index is not None:
                error.index = places[error.index]
            raise

    def _renew(self) -> None:
        # An engine that was started again may have chosen another precision.
        if self._described is not self._engine.description:
            self._described, self._used = self._engine.description, 0
            self._vectors.clear()

    def _keep(self, found: Iterable[tuple[Key, Floats]]) -> None:
        for key, vector in found:
            if key not in self._vectors:
                self._vectors[key] = vector.copy()  # else it would hold those beside it
                self._used += _cost(key, vector)
            self._vectors.move_to_end(key)
        while self._used > self._size:
            self._used -= _cost(*self._vectors.popitem(last=False))


def _keys(job: Job) -> list[Key]:
    return [(row.tobytes(), skip) for row, skip in zip(job.rows, _skips(job), strict=True)]


def _skips(job: Job) -> Sequence[int]:
    return job.skips or [0] * len(job.rows)


def _cost(key: Key, vector: Floats) -> int:
    return len(key[0]) + vector.nbytes + _BESIDE
