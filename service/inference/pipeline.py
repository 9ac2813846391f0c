"""From the texts of a request to vectors: read, admit, submit."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from models.vectors import Floats
from service.engine.protocol.messages import POOLED, Job, Result
from service.engine.protocol.sizes import size_class
from service.errors import EncodingFailed, ServiceError, TimedOut
from service.inference.item_result import ItemResult
from service.inputs.options import Reading, Text
from service.inputs.overflow import average, owners, spread
from service.inputs.reader import Reader
from service.inputs.row import Row
from service.request.admission import Admission
from service.request.request_context import RequestContext


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
        self, context: RequestContext, inputs: Sequence[Text], reading: Reading
    ) -> tuple[list[Row], Floats]:
        """Pooled vectors as the model gives them, not normalised: rows, (B, dim)."""
        rows = await self.reader.read(context, inputs, reading)
        if reading.windows:
            return rows, await self._averaged(context, rows)
        return rows, await self.submit(context, rows, POOLED)

    async def attempt(
        self, context: RequestContext, inputs: Sequence[Text], reading: Reading
    ) -> list[ItemResult]:
        """The same, but an input that is refused or fails leaves the others be."""
        rows = await self.reader.attempt(context, inputs, reading)
        good = {index: row for index, row in enumerate(rows) if isinstance(row, Row)}
        tokens = sum(len(row.ids) for row in good.values())
        jobs = [_job(spread([row]), POOLED, tokens) for row in good.values()]
        found = await self._run(context, jobs)
        outcomes: dict[int, ItemResult] = {
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
        self, context: RequestContext, chunks: Sequence[str], reading: Reading, layers: int
    ) -> list[ItemResult]:
        """The mean of the hidden states of each chunk, all in one context."""
        document = await self.reader.document(context, chunks, reading, sum(map(len, chunks)))
        (states,) = await self.hidden(context, [document.row], layers)
        found = zip(document.rows(), document.pool(states, "mean"), strict=True)
        return [
            vector if isinstance(vector, ServiceError) else (row, vector) for row, vector in found
        ]

    async def hidden(
        self, context: RequestContext, rows: Sequence[Row], output: str | int
    ) -> list[Floats]:
        """Token vectors after some layers, or a summand of the input: B times (length, D)."""
        states = await self.submit(context, rows, output)
        return np.split(states, np.cumsum([len(row.ids) for row in rows])[:-1])

    async def submit(
        self, context: RequestContext, rows: Sequence[Row], output: str | int
    ) -> Floats:
        """What the engine makes of rows; raises Overloaded, TimedOut, EngineLost."""
        job = _job(rows, output, sum(len(row.ids) for row in rows))
        with self._admission.admit(self._engine.load(job)):
            result = await self._answer(context, job)
        context.queue_us += result.queue_us
        context.compute_us += result.compute_us
        context.cached += result.cached
        return result.vectors

    async def _averaged(self, context: RequestContext, rows: Sequence[Row]) -> Floats:
        try:
            return average(rows, await self.submit(context, spread(rows), POOLED))
        except EncodingFailed as error:  # of a window: told of the input that it is part of
            if error.index is not None:
                error.index = owners(rows)[error.index]
            raise

    async def _run(
        self, context: RequestContext, jobs: Sequence[Job]
    ) -> list[Result | EncodingFailed]:
        with self._admission.admit(sum(map(self._engine.load, jobs))):
            found = await asyncio.gather(*(self._try(context, job) for job in jobs))
        results = [result for result in found if isinstance(result, Result)]
        context.cached += sum(result.cached for result in results)
        computed = [result for result in results if result.compute_us]
        if computed:  # jobs share passes: from the start of the first to the end of the last
            context.queue_us += min(result.queue_us for result in computed)
            ends = [result.queue_us + result.compute_us for result in computed]
            context.compute_us += max(ends) - min(result.queue_us for result in computed)
        return found

    async def _try(self, context: RequestContext, job: Job) -> Result | EncodingFailed:
        try:
            return await self._answer(context, job)
        except EncodingFailed as error:
            return error

    async def _answer(self, context: RequestContext, job: Job) -> Result:
        left = self._timeout - context.tokenize_us / 1e6
        try:
            return await self._engine.submit(job, left)
        except TimeoutError:
            raise TimedOut(f"not answered within {self._timeout:.0f} s", retry=1) from None


def _job(rows: Sequence[Row], output: str | int, tokens: int) -> Job:
    """A request, or a part of one that has so many tokens."""
    skips = [row.skip for row in rows]
    ids = [row.ids for row in rows]
    return Job(output, ids, skips if any(skips) else (), size_class(tokens))
