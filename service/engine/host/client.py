"""The HTTP process's end of the connection to one engine process."""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any, cast

from service.engine.protocol.fd_handoff import Connection
from service.engine.protocol.messages import (
    Description,
    Failure,
    Job,
    Result,
    pack_jobs,
    unpack_outcomes,
)
from service.engine.protocol.running_jobs import RunningJobs
from service.engine.protocol.wire import MessageReader, pack, widen
from service.errors import EncodingFailed, EngineDied, EngineLost, NotFinite, ServiceError


class Client(asyncio.Protocol):
    """Sends jobs and matches the answers to them, on the running event loop.

    What is submitted in one turn of the loop goes out as one message.
    """

    def __init__(self, running: RunningJobs, on_lost: Callable[[], None] = lambda: None) -> None:
        """running: the jobs of this connection that the engine is computing.

        on_lost: called when the connection ends, before any job fails.
        """
        self._running, self._on_lost = running, on_lost
        self._loop = asyncio.get_running_loop()
        self._described: asyncio.Future[Description] = self._loop.create_future()
        self._waiting: dict[int, asyncio.Future[Result]] = {}
        self._outbox: list[tuple[int, Job]] = []
        self._number = count()
        self._reader = MessageReader()
        self.lost = asyncio.Event()

    @classmethod
    async def connect(
        cls, connection: Connection, on_lost: Callable[[], None] = lambda: None
    ) -> "Client":
        """A client of the engine that has, or will get, the other end of a connection."""
        end, running = connection
        create = asyncio.get_running_loop().create_unix_connection
        _, client = await create(lambda: cls(running, on_lost), sock=end)
        return client

    async def describe(self) -> Description:
        """What the engine says of itself, once it is loaded; raises EngineLost."""
        return await self._described

    @property
    def busy(self) -> bool:
        """Whether a job waits for its answer."""
        return bool(self._waiting)

    async def submit(self, job: Job, timeout: float) -> Result:
        """The vectors of a job; raises EncodingFailed, EngineLost (EngineDied), or TimeoutError.

        When the caller stops waiting, its job is taken out of the engine's queue.
        """
        if self._transport.is_closing():
            raise EngineLost("the engine is restarting", retry=1)
        number = next(self._number)
        future: asyncio.Future[Result] = self._loop.create_future()
        self._waiting[number] = future
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append((number, job))
        # asyncio.timeout would cost as much as all the rest of this.
        timer = self._loop.call_later(timeout, _expire, future)
        try:
            return await future
        except (asyncio.CancelledError, TimeoutError):
            # The job has gone out before: that was arranged before whatever ended the wait.
            self._send(["cancel", number])
            raise
        finally:
            timer.cancel()
            del self._waiting[number]

    def close(self, error: ServiceError) -> None:
        """Fail every waiting job and close the connection."""
        self._transport.abort()
        self.lost.set()
        futures: list[asyncio.Future[Any]] = [self._described, *self._waiting.values()]
        for future in futures:
            if not future.done():
                future.set_exception(error)
        if not self._described.cancelled():
            self._described.exception()  # whoever wants it has it; nobody may

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        widen(transport.get_extra_info("socket"))

    def connection_lost(self, error: Exception | None) -> None:
        """Called by the event loop when the engine has closed its end, or has died."""
        self._on_lost()
        for number, future in self._waiting.items():
            if not future.done():
                future.set_exception(EngineDied(computing=number in self._running))
        self.close(EngineDied(computing=False))

    def data_received(self, data: bytes) -> None:
        """Called by the event loop with what the engine has sent."""
        for (verb, content), body in self._reader.feed(data):
            if verb == "description":
                self._described.set_result(Description(**content))
                continue
            for number, outcome in unpack_outcomes(content, body):
                future = self._waiting.get(number)
                if future is not None and not future.done():
                    _settle(future, outcome)

    def _flush(self) -> None:
        if self._outbox:
            jobs, self._outbox = self._outbox, []
            self._send(*pack_jobs(jobs))

    def _send(self, head: Any, body: Any = b"") -> None:
        if not self._transport.is_closing():
            self._transport.write(pack(head, body))


def _settle(future: asyncio.Future[Result], outcome: Result | Failure) -> None:
    if isinstance(outcome, Failure):
        kind = EncodingFailed if outcome.finite else NotFinite
        future.set_exception(kind(outcome.message, index=outcome.index))
    else:
        future.set_result(outcome)


def _expire(future: asyncio.Future[Result]) -> None:
    if not future.done():
        future.set_exception(TimeoutError())
