"""Messages on a stream socket: a JSON header, and a body of raw numbers.

One system call sends a message, and one receives all waiting messages. Threads in between would
only add context switches; one is started if the receiver reads more slowly than the sender writes.
"""

import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import orjson

from embedwell.engine.wire.running_text_counts import RunningTextCounts

_LENGTHS = struct.Struct("<QQ")  # bytes of the header and of the body
_ALIGNMENT = 8  # bytes; headers are padded, so that the numbers of the body are aligned
_BUFFER_SIZE = 1 << 20  # bytes; the operating system may allow fewer

Message = tuple[Any, Any]  # the header as JSON, and the body as a buffer


def pack(header: Any, body: Any = b"") -> bytes:
    """Serialize a message.

    body: a contiguous buffer.
    """
    text = orjson.dumps(header)
    text += b" " * (-len(text) % _ALIGNMENT)
    view = memoryview(body)
    numbers = view.cast("B") if view.nbytes else b""  # an empty view cannot be cast
    return b"".join([_LENGTHS.pack(len(text), len(numbers)), text, numbers])


class MessageReader:
    """Split a stream of bytes into messages."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Add received bytes, and yield the messages that are complete."""
        self._data += data
        while len(self._data) >= _LENGTHS.size:
            header_size, body_size = _LENGTHS.unpack_from(self._data)
            end = _LENGTHS.size + header_size + body_size
            if len(self._data) < end:
                return
            with memoryview(self._data) as view:
                message = memoryview(bytes(view[_LENGTHS.size : end]))
            del self._data[:end]
            yield orjson.loads(message[:header_size]), message[header_size:]


class HttpProcessConnection:
    """The engine's end of a connection to one HTTP process.

    running: its jobs that are being computed.
    """

    def __init__(
        self, sock: socket.socket, running: RunningTextCounts, send_timeout: int = 10
    ) -> None:
        """send_timeout: seconds until a process that does not read is disconnected."""
        self.running = running
        enlarge_send_buffer(sock)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", send_timeout, 0))
        self._socket, self._reader = sock, MessageReader()
        self._unsent: deque[memoryview] = deque()  # a thread is sending the first one
        self._lock = threading.Lock()

    def receive(self, wait: bool) -> list[Message]:
        """Receive the waiting messages; raises EOFError when the other end is closed.

        wait: block until there is at least part of one.
        """
        try:
            data = self._socket.recv(_BUFFER_SIZE, 0 if wait else socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except ConnectionResetError:
            data = b""
        if not data:
            raise EOFError
        return list(self._reader.feed(data))

    def send(self, header: Any, body: Any = b"") -> None:
        """Send a message without blocking; a thread sends the rest if the socket is full.

        Shuts the connection down if the other end is closed or does not read.
        """
        data = memoryview(pack(header, body))
        with self._lock:
            rest = data if self._unsent else self._send(data, socket.MSG_DONTWAIT)
            if not rest:
                return
            self._unsent.append(rest)
            if len(self._unsent) > 1:
                return
        threading.Thread(target=self._drain, args=[rest], daemon=True).start()

    def _drain(self, rest: memoryview) -> None:
        while rest:
            rest = self._send(rest) or self._next()

    def _next(self) -> memoryview:
        with self._lock:
            self._unsent.popleft()
            return self._unsent[0] if self._unsent else memoryview(b"")

    def _send(self, data: memoryview, flags: int = 0) -> memoryview:
        """Send data and return the unsent rest; blocks until some is sent, unless flags forbid."""
        try:
            return data[self._socket.send(data, flags) :]
        except OSError as error:
            if flags and isinstance(error, BlockingIOError):
                return data
            # Either end is closed, or the other end did not read in time.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            return data[:0]


def enlarge_send_buffer(sock: socket.socket) -> None:
    """Make room for a result of usual size, so that sending it does not block."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_SIZE)
