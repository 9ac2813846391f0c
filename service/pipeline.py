"""From the texts of a request to vectors: read, admit, submit."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from models.vectors import Floats
from service.admission import Admission
from service.call import Call
from service.engine.messages import POOLED, Job, Result
from service.errors import EncodingFailed, TimedOut
from service.overflow import average, owners, spread
from service.reader import Reader, Reading, Text
from service.row import Row


class Engine(Protocol):
    """Whatever turns jobs into results."""

    async def submit(self, job: Job, timeout: float) -> Result: ...


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

    async def hidden(self, call: Call, rows: Sequence[Row], output: str | int) -> list[Floats]:
        """Token vectors after some layers, or a summand of the input: B times (length, D)."""
        states = await self.submit(call, rows, output)
        return np.split(states, np.cumsum([len(row.ids) for row in rows])[:-1])

    async def _averaged(self, call: Call, rows: Sequence[Row]) -> Floats:
        try:
            return average(rows, await self.submit(call, spread(rows), POOLED))
        except EncodingFailed as error:  # of a window: told of the input that it is part of
            if error.index is not None:
                error.index = owners(rows)[error.index]
            raise

    async def submit(self, call: Call, rows: Sequence[Row], output: str | int) -> Floats:
        """What the engine makes of rows; raises Overloaded, TimedOut, EngineLost."""
        job = Job(output, [row.ids for row in rows])
        with self._admission.admit(sum(len(row.ids) for row in rows)):
            try:
                result = await self._engine.submit(job, self._timeout)
            except TimeoutError:
                raise TimedOut(f"not answered within {self._timeout:.0f} s", retry=1) from None
        call.queue_us += result.queue_us
        call.compute_us += result.compute_us
        return result.vectors
