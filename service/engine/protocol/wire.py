"""Messages on a stream socket: a JSON head, and a body of raw numbers.

One system call sends a message and one receives all that wait, and no thread stands between the two
processes, as each would be another wait for the processor; unless one end does not read as fast as
the other writes.
"""

import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import orjson

from service.engine.protocol.running_jobs import RunningJobs

_LENGTHS = struct.Struct("<QQ")  # of the head and of the body
_ALIGNED = 8  # heads are filled up to a multiple of this, so that numbers lie as they must
_BUFFER = 1 << 20  # bytes; the system may allow less

Message = tuple[Any, Any]  # what the head says, and the body as a buffer


def pack(head: Any, body: Any = b"") -> bytes:
    """A message as it is sent. body: a buffer that lies in one piece."""
    text = orjson.dumps(head)
    text += b" " * (-len(text) % _ALIGNED)
    view = memoryview(body)
    numbers = view.cast("B") if view.nbytes else b""  # no rows at all cannot be cast
    return b"".join([_LENGTHS.pack(len(text), len(numbers)), text, numbers])


class MessageReader:
    """Split a stream of bytes into messages."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that these bytes complete."""
        self._data += data
        while len(self._data) >= _LENGTHS.size:
            head, body = _LENGTHS.unpack_from(self._data)
            end = _LENGTHS.size + head + body
            if len(self._data) < end:
                return
            with memoryview(self._data) as view:
                whole = memoryview(bytes(view[_LENGTHS.size : end]))
            del self._data[:end]
            yield orjson.loads(whole[:head]), whole[head:]


class WorkerConnection:
    """The engine's end of a connection to one HTTP process.

    running: its jobs that are being computed.
    """

    def __init__(self, end: socket.socket, running: RunningJobs, patience: int = 10) -> None:
        """patience: seconds for a process that does not read."""
        self.running = running
        widen(end)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", patience, 0))
        self._socket, self._reader = end, MessageReader()
        self._outbox: deque[memoryview] = deque()  # what a thread is sending, and what follows
        self._lock = threading.Lock()

    def receive(self, wait: bool) -> list[Message]:
        """All messages that are there; at least some bytes if told to wait.

        Raises EOFError when the other end is closed.
        """
        try:
            data = self._socket.recv(_BUFFER, 0 if wait else socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except ConnectionResetError:
            data = b""
        if not data:
            raise EOFError
        return list(self._reader.feed(data))

    def send(self, head: Any, body: Any = b"") -> None:
        """Send a message; what the other end does not take at once goes on beside the caller.

        The connection ends where the other end is closed or does not read.
        """
        data = memoryview(pack(head, body))
        with self._lock:
            rest = data if self._outbox else self._push(data, socket.MSG_DONTWAIT)
            if not rest:
                return
            self._outbox.append(rest)
            if len(self._outbox) > 1:
                return
        threading.Thread(target=self._drain, args=[rest], daemon=True).start()

    def _drain(self, rest: memoryview) -> None:
        while rest:
            rest = self._push(rest) or self._next()

    def _next(self) -> memoryview:
        with self._lock:
            self._outbox.popleft()
            return self._outbox[0] if self._outbox else memoryview(b"")

    def _push(self, data: memoryview, flags: int = 0) -> memoryview:
        """Send, and return the unsent rest; waits until some is taken unless flags forbid it."""
        try:
            return data[self._socket.send(data, flags) :]
        except OSError as error:
            if flags and isinstance(error, BlockingIOError):
                return data
            # Closed at either end, in the meantime too, or not read.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            return data[:0]


def widen(end: socket.socket) -> None:
    """Let an answer of usual size leave at once, whatever the other process is doing."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
