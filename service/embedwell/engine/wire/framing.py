"""Messages on a stream socket: a JSON header, and a body of raw numbers.

One system call sends a message, and one receives all waiting messages. Threads in between would
only add context switches; one is started if the receiver reads more slowly than the sender writes.
"""

import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import orjson

from embedwell.engine.wire.engine_sockets import RunningTextCounts

_LENGTHS = struct.Struct("<QQ")  # bytes of the header and of the body
_ALIGNMENT = 8  # bytes; headers are padded, so that the numbers of the body are aligned
_BUFFER_SIZE = 1 << 20  # bytes; the operating system may allow fewer
_CHUNK = 1 << 16  # bytes; for a larger buffer, each call would map fresh pages of memory
_MAX_CHUNKS = 16  # read at once
_MAX_BUFFERS = 1000  # of one system call; Linux has 1024

Message = tuple[Any, Any]  # the header as JSON, and the body as a buffer
MessageToSend = tuple[Any, *tuple[Any, ...]]  # the body as any number of contiguous buffers


def pack(header: Any, *body: Any) -> bytes:
    """Serialize a message; the body may be several contiguous buffers."""
    return b"".join(_buffers(header, body))


def _buffers(header: Any, body: Sequence[Any]) -> list[Any]:
    text = orjson.dumps(header)
    text += b" " * (-len(text) % _ALIGNMENT)
    views, size = [], 0
    for part in body:
        view = memoryview(part)
        if view.nbytes:
            views.append(view)
            size += view.nbytes
    return [_LENGTHS.pack(len(text), size) + text, *views]


class MessageReader:
    """Split a stream of bytes into messages."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._missing = _LENGTHS.size  # bytes, at least, until the next message is complete

    def feed(self, data: bytes) -> list[Message]:
        """Add received bytes, and return the messages that are complete, with their bodies."""
        self._chunks.append(data)
        self._missing -= len(data)
        if self._missing > 0:
            return []
        whole = data if len(self._chunks) == 1 else b"".join(self._chunks)
        messages, view, start = list[Message](), memoryview(whole), 0
        while (header := start + _LENGTHS.size) <= len(whole):
            header_size, body_size = _LENGTHS.unpack_from(whole, start)
            body = header + header_size
            stop = body + body_size
            if stop > len(whole):
                break
            messages.append((orjson.loads(view[header:body]), view[body:stop]))
            start = stop
        else:
            stop = header  # at least, as its lengths are incomplete
        rest = whole[start:]
        self._chunks, self._missing = [rest] * bool(rest), stop - len(whole)
        return messages


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
        messages: list[Message] = []
        for _ in range(_MAX_CHUNKS):
            try:
                data = self._socket.recv(_CHUNK, 0 if wait else socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except ConnectionResetError:
                data = b""
            if not data:
                if messages:  # the next call raises the error
                    break
                raise EOFError
            messages += self._reader.feed(data)
            if len(data) < _CHUNK:
                break
            wait = False
        return messages

    def send(self, header: Any, *body: Any) -> None:
        """Send a message without blocking; a thread sends the rest if the socket is full.

        Shuts the connection down if the other end is closed or does not read.
        """
        buffers = _buffers(header, body)
        if len(buffers) > _MAX_BUFFERS:
            buffers = [b"".join(buffers)]
        with self._lock:
            sent = 0 if self._unsent else self._send(buffers, socket.MSG_DONTWAIT)
            if sent == _size(buffers):
                return
            rest = memoryview(b"".join(buffers))[sent:]
            self._unsent.append(rest)
            if len(self._unsent) > 1:
                return
        threading.Thread(target=self._drain, args=[rest], daemon=True).start()

    def _drain(self, rest: memoryview) -> None:
        while rest:
            rest = rest[self._send([rest]) :] or self._next()

    def _next(self) -> memoryview:
        with self._lock:
            self._unsent.popleft()
            return self._unsent[0] if self._unsent else memoryview(b"")

    def _send(self, buffers: Sequence[Any], flags: int = 0) -> int:
        """Send buffers and return how many bytes; blocks until some are sent, unless flags forbid.

        Returns the bytes of all buffers if the connection ends.
        """
        try:
            return self._socket.sendmsg(buffers, (), flags)
        except OSError as error:
            if flags and isinstance(error, BlockingIOError):
                return 0
            # Either end is closed, or the other end did not read in time.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            return _size(buffers)


def _size(buffers: Sequence[Any]) -> int:
    return sum([memoryview(buffer).nbytes for buffer in buffers])


def enlarge_send_buffer(sock: socket.socket) -> None:
    """Make room for a result of usual size, so that sending it does not block."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_SIZE)
