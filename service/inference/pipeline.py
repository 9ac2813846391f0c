"""From the texts of a request to vectors: read, admit, submit."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from models.vectors import Floats
from service.engine.protocol.messages import POOLED, Job, Result
from service.engine.protocol.sizes import size_class
from service.errors import EncodingFailed, ServiceError, TimedOut
from service.inference.item_result import Outcome
from service.inputs.options import Reading, Text
from service.inputs.overflow import average, owners, spread
from service.inputs.reader import Reader
from service.inputs.row import Row
from service.request.admission import Admission
from service.request.request_context import Call


class Engine(Protocol):
    """Whatever turns jobs into results."""

    async def submit(self, job: Job, timeout: float) -> Result: ...

    def load(self, job: Job) -> int:
        """Tokens that are computed for it."""


class Pipeline:
    """The way of a request, and the call's account of it."""

    def __init__(
        self, reader: Reader, admission: Admission, engine: Engine, timeout: float
    ) -> None:
        self.reader = reader
        self._admission, self._engine, self._timeout = admission, engine, timeout

    async def embed(
        self, call: Call, inputs: Sequence[Text], reading: Reading
    ) -> tuple[list[Row], Floats]:
        """Pooled vectors as the model gives them, not normalised: rows, (B, dim)."""
        rows = await self.reader.read(call, inputs, reading)
        if reading.windows:
            return rows, await self._averaged(call, rows)
        return rows, await self.submit(call, rows, POOLED)

    async def attempt(self, call: Call, inputs: Sequence[Text], reading: Reading) -> list[Outcome]:
        """The same, but an input that is refused or fails leaves the others be."""
        rows = await self.reader.attempt(call, inputs, reading)
        good = {index: row for index, row in enumerate(rows) if isinstance(row, Row)}
        tokens = sum(len(row.ids) for row in good.values())
        jobs = [_job(spread([row]), POOLED, tokens) for row in good.values()]
        found = await self._run(call, jobs)
        outcomes: dict[int, Outcome] = {
            index: row for index, row in enumerate(rows) if isinstance(row, ServiceError)
        }
        for (index, row), result in zip(good.items(), found, strict=True):
            if isinstance(result, EncodingFailed):
                result.index = index
                outcomes[index] = result
            else:
                outcomes[index] = row, average([row], result.vectors)[0]
        return [outcomes[index] for index in range(len(rows))]

    async def late(
        self, call: Call, chunks: Sequence[str], reading: Reading, layers: int
    ) -> list[Outcome]:
        """The mean of the hidden states of each chunk, all in one context."""
        document = await self.reader.document(call, chunks, reading, sum(map(len, chunks)))
        (states,) = await self.hidden(call, [document.row], layers)
        found = zip(document.rows(), document.pool(states, "mean"), strict=True)
        return [
            vector if isinstance(vector, ServiceError) else (row, vector) for row, vector in found
        ]

    async def hidden(self, call: Call, rows: Sequence[Row], output: str | int) -> list[Floats]:
        """Token vectors after some layers, or a summand of the input: B times (length, D)."""
        states = await self.submit(call, rows, output)
        return np.split(states, np.cumsum([len(row.ids) for row in rows])[:-1])

    async def submit(self, call: Call, rows: Sequence[Row], output: str | int) -> Floats:
        """What the engine makes of rows; raises Overloaded, TimedOut, EngineLost."""
        job = _job(rows, output, sum(len(row.ids) for row in rows))
        with self._admission.admit(self._engine.load(job)):
            result = await self._answer(call, job)
        call.queue_us += result.queue_us
        call.compute_us += result.compute_us
        call.cached += result.cached
        return result.vectors

    async def _averaged(self, call: Call, rows: Sequence[Row]) -> Floats:
        try:
            return average(rows, await self.submit(call, spread(rows), POOLED))
        except EncodingFailed as error:  # of a window: told of the input that it is part of
            if error.index is not None:
                error.index = owners(rows)[error.index]
            raise

    async def _run(self, call: Call, jobs: Sequence[Job]) -> list[Result | EncodingFailed]:
        with self._admission.admit(sum(map(self._engine.load, jobs))):
            found = await asyncio.gather(*(self._try(call, job) for job in jobs))
        results = [result for result in found if isinstance(result, Result)]
        call.cached += sum(result.cached for result in results)
        computed = [result for result in results if result.compute_us]
        if computed:  # jobs share passes: from the start of the first to the end of the last
            call.queue_us += min(result.queue_us for result in computed)
            ends = [result.queue_us + result.compute_us for result in computed]
            call.compute_us += max(ends) - min(result.queue_us for result in computed)
        return found

    async def _try(self, call: Call, job: Job) -> Result | EncodingFailed:
        try:
            return await self._answer(call, job)
        except EncodingFailed as error:
            return error

    async def _answer(self, call: Call, job: Job) -> Result:
        left = self._timeout - call.tokenize_us / 1e6
        try:
            return await self._engine.submit(job, left)
        except TimeoutError:
            raise TimedOut(f"not answered within {self._timeout:.0f} s", retry=1) from None


def _job(rows: Sequence[Row], output: str | int, tokens: int) -> Job:
    """A request, or a part of one that has so many tokens."""
    skips = [row.skip for row in rows]
    ids = [row.ids for row in rows]
    return Job(output, ids, skips if any(skips) else (), size_class(tokens))
