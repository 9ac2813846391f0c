"""The HTTP process's end of the line to one engine process."""

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any

import zmq

from service.engine.messages import Description, Failure, Job, Result
from service.errors import EncodingFailed, EngineLost, ServiceError

_REPLIES: dict[bytes, Any] = {
    b"result": Result.parse,
    b"failure": Failure.parse,
    b"description": Description.parse,
}


class Client:
    """Sends jobs and matches the answers to them, on the running event loop."""

    def __init__(self, address: str) -> None:
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.set(zmq.SNDHWM, 0)
        self._socket.set(zmq.RCVHWM, 0)
        self._socket.connect(address)
        self._waiting: dict[bytes, asyncio.Future[Any]] = {}
        self._number = count()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket.FD, self._receive)

    async def describe(self) -> Description:
        """What the engine says of itself, once it is loaded."""
        answer: Description = await self._ask(b"describe", [])
        return answer

    async def submit(self, job: Job) -> Result:
        """The vectors of a job; raises EncodingFailed, or EngineLost when the engine dies.

        A caller that stops waiting takes its job out of the engine's queue.
        """
        answer: Result | Failure = await self._ask(b"job", job.frames())
        if isinstance(answer, Failure):
            raise EncodingFailed(answer.message, index=answer.index)
        return answer

    def close(self, error: ServiceError) -> None:
        """Fail everything that waits and leave the line."""
        if not self._socket.closed:
            self._loop.remove_reader(self._socket.FD)
            self._socket.close(linger=0)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)

    async def _ask(self, verb: bytes, frames: Sequence[Any]) -> Any:
        if self._socket.closed:
            raise EngineLost("the engine is restarting", retry=1)
        number = next(self._number).to_bytes(8, "big")
        future = self._loop.create_future()
        self._waiting[number] = future
        self._send([number, verb, *frames])
        try:
            return await future
        except asyncio.CancelledError:
            if not self._socket.closed:
                self._send([number, b"cancel"])
            raise
        finally:
            del self._waiting[number]

    def _send(self, frames: list[Any]) -> None:
        self._socket.send_multipart(frames, zmq.NOBLOCK)
        # The descriptor signals a change once, and sending may have swallowed the signal.
        self._loop.call_soon(self._receive)

    def _receive(self) -> None:
        while not self._socket.closed:
            try:
                number, verb, *frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            future = self._waiting.get(number)
            if future is not None and not future.done():
                future.set_result(_REPLIES[verb](frames))
