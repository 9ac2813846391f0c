"""The HTTP process's end of the line to one engine process."""

import asyncio
from itertools import count
from typing import Any

import zmq

from service.engine.messages import (
    Description,
    Failure,
    Job,
    Result,
    pack_jobs,
    unpack_outcomes,
)
from service.errors import EncodingFailed, EngineLost, ServiceError


class Client:
    """Sends jobs and matches the answers to them, on the running event loop.

    What is submitted in one turn of the loop goes out as one message.
    """

    def __init__(self, address: str) -> None:
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.set(zmq.SNDHWM, 0)
        self._socket.set(zmq.RCVHWM, 0)
        self._socket.connect(address)
        self._loop = asyncio.get_running_loop()
        self._described: asyncio.Future[Description] = self._loop.create_future()
        self._waiting: dict[int, asyncio.Future[Result]] = {}
        self._outbox: list[tuple[int, Job]] = []
        self._number = count()
        self._loop.add_reader(self._socket.FD, self._receive)

    async def describe(self) -> Description:
        """What the engine says of itself, once it is loaded."""
        self._send([b"describe"])
        return await self._described

    async def submit(self, job: Job, timeout: float) -> Result:
        """The vectors of a job; raises EncodingFailed, EngineLost, or TimeoutError.

        When the caller stops waiting, its job is taken out of the engine's queue.
        """
        if self._socket.closed:
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
            self._cancel(number)
            raise
        finally:
            timer.cancel()
            del self._waiting[number]

    def close(self, error: ServiceError) -> None:
        """Fail everything that waits and leave the line."""
        if not self._socket.closed:
            self._loop.remove_reader(self._socket.FD)
            self._socket.close(linger=0)
        self._described.cancel()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)

    def _cancel(self, number: int) -> None:
        self._flush()  # or the job would come after its end
        self._send([b"cancel", b"%d" % number])

    def _flush(self) -> None:
        if self._outbox:
            jobs, self._outbox = self._outbox, []
            self._send([b"jobs", *pack_jobs(jobs)])

    def _send(self, frames: list[Any]) -> None:
        if self._socket.closed:
            return
        self._socket.send_multipart(frames, zmq.NOBLOCK)
        # The descriptor signals a change once, and sending may have swallowed the signal.
        self._receive()

    def _receive(self) -> None:
        while not self._socket.closed:
            try:
                verb, *frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if verb == b"description":
                self._described.set_result(Description.parse(frames))
                continue
            for number, outcome in unpack_outcomes(frames):
                future = self._waiting.get(number)
                if future is not None and not future.done():
                    _settle(future, outcome)


def _settle(future: asyncio.Future[Result], outcome: Result | Failure) -> None:
    if isinstance(outcome, Failure):
        future.set_exception(EncodingFailed(outcome.message, index=outcome.index))
    else:
        future.set_result(outcome)


def _expire(future: asyncio.Future[Result]) -> None:
    if not future.done():
        future.set_exception(TimeoutError())
