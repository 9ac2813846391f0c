"""Connection of an HTTP process to one engine process."""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any, cast

from embedwell.engine.wire.engine_sockets import (
    EngineSocket,
    MessageReader,
    RunningTextCounts,
    enlarge_send_buffer,
    pack,
)
from embedwell.engine.wire.messages import (
    EngineDescription,
    Failure,
    Job,
    Result,
    pack_jobs,
    unpack_results,
)
from embedwell.errors import EncodingFailed, EngineDied, NotFinite, ServiceError


class EngineConnection(asyncio.Protocol):
    """Sends jobs and matches results to them, on the running event loop.

    Jobs submitted in the same iteration of the loop are sent as one message.
    """

    def __init__(
        self, running: RunningTextCounts, on_lost: Callable[[], None] = lambda: None
    ) -> None:
        """running: the table of the connection's jobs that the engine is computing.

        on_lost: called when the connection ends, before any job fails.
        """
        self._running, self._on_lost = running, on_lost
        self._loop = asyncio.get_running_loop()
        self._description: asyncio.Future[EngineDescription] = self._loop.create_future()
        self._results: dict[int, asyncio.Future[Result]] = {}  # by job number
        self._unsent: list[tuple[int, Job]] = []
        self._numbers = count()
        self._reader = MessageReader()
        self.lost = asyncio.Event()

    @classmethod
    async def connect(
        cls, connection: EngineSocket, on_lost: Callable[[], None] = lambda: None
    ) -> "EngineConnection":
        """Create a connection from this process's end of it; the engine may accept later."""
        sock, running = connection
        create = asyncio.get_running_loop().create_unix_connection
        _, protocol = await create(lambda: cls(running, on_lost), sock=sock)
        return protocol

    async def wait_loaded(self) -> EngineDescription:
        """Wait until the engine is loaded and return its description; raises EngineDied."""
        return await self._description

    @property
    def busy(self) -> bool:
        """Whether a job waits for its result."""
        return bool(self._results)

    async def submit(self, job: Job, timeout: float) -> Result:
        """Compute a job; raises EncodingFailed, EngineDied or TimeoutError.

        If the caller is cancelled, its job is removed from the engine's queue.
        """
        if self._transport.is_closing():  # the loop calls connection_lost in its next iteration
            await self.lost.wait()
            raise EngineDied(computing=False)
        number = next(self._numbers)
        future: asyncio.Future[Result] = self._loop.create_future()
        self._results[number] = future
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append((number, job))
        # asyncio.timeout would double the cost of this method.
        timer = self._loop.call_later(timeout, _expire, future)
        try:
            return await future
        except (asyncio.CancelledError, TimeoutError):
            # The job was sent before: its flush was scheduled before the event that ended the wait.
            self._send(pack(["cancel", number]))
            raise
        finally:
            timer.cancel()
            del self._results[number]

    def close(self, error: ServiceError) -> None:
        """Fail every waiting job and close the connection."""
        self._transport.abort()
        self.lost.set()
        futures: list[asyncio.Future[Any]] = [self._description, *self._results.values()]
        for future in futures:
            if not future.done():
                future.set_exception(error)
        if not self._description.cancelled():
            self._description.exception()  # retrieved, so that asyncio does not log it

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport; called by the event loop."""
        # Not checked, because uvloop's transport does not inherit from it.
        self._transport = cast(asyncio.Transport, transport)
        enlarge_send_buffer(transport.get_extra_info("socket"))

    def connection_lost(self, error: Exception | None) -> None:
        """Fail waiting jobs; called by the event loop when the engine exits or dies."""
        self._on_lost()
        for number, future in self._results.items():
            if not future.done():
                future.set_exception(EngineDied(computing=number in self._running))
        self.close(EngineDied(computing=False))

    def data_received(self, data: bytes) -> None:
        """Handle messages of the engine; called by the event loop."""
        for (message_type, content), body in self._reader.feed(data):
            if message_type == "description":
                self._description.set_result(EngineDescription(**content))
                continue
            for number, result in unpack_results(content, body):
                future = self._results.get(number)
                if future is not None and not future.done():
                    _resolve(future, result)

    def _flush(self) -> None:
        if self._unsent:
            jobs, self._unsent = self._unsent, []
            self._send(pack(*pack_jobs(jobs)))

    def _send(self, message: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(message)


def _resolve(future: asyncio.Future[Result], result: Result | Failure) -> None:
    if isinstance(result, Failure):
        error_type = EncodingFailed if result.finite else NotFinite
        future.set_exception(error_type(result.message, index=result.index))
    else:
        future.set_result(result)


def _expire(future: asyncio.Future[Result]) -> None:
    if not future.done():
        future.set_exception(TimeoutError())
