"""Sockets between HTTP processes and the running engine, and messages on them.

The sockets are passed over a socket pair that all processes inherit, so no other program can find
or remove a path in the file system. Each has a table of its running jobs. A message is a JSON
header, and a body of raw numbers: one system call sends it, and one receives all waiting messages.
Threads in between would only add context switches; one is started if the receiver reads more slowly
than the sender writes.
"""

import contextlib
import mmap
import os
import socket
import struct
import threading
from collections import deque
from collections.abc import Sequence
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import orjson

_SLOTS = 4096
_SLOT_BYTES = 4


class RunningTextCounts:
    """Number of texts in running batches, for each job of one connection, in shared memory.

    The engine writes before and after a batch; the HTTP process reads when the connection is lost.
    Jobs whose numbers differ by a multiple of 4096 share a slot, so a waiting job may appear to
    run.
    """

    def __init__(self, memory: mmap.mmap) -> None:
        self._counts = memoryview(memory).cast("i")

    @classmethod
    def create(cls) -> tuple["RunningTextCounts", BinaryIO]:
        """Return an empty table, and the file by which the engine maps it; raises OSError."""
        file = TemporaryFile()  # noqa: SIM115
        try:
            # Allocate the pages: writing to a mapped hole on a full disk would kill the process.
            file.write(bytes(_SLOTS * _SLOT_BYTES))
            file.flush()
            return cls.attach(file.fileno()), file
        except OSError:
            file.close()
            raise

    @classmethod
    def attach(cls, fd: int) -> "RunningTextCounts":
        """Map the table of a file descriptor, which may be closed afterwards."""
        return cls(mmap.mmap(fd, _SLOTS * _SLOT_BYTES))

    def begin(self, number: int, texts: int = 1) -> None:
        """Count texts of a job whose batch begins."""
        self._counts[number % _SLOTS] += texts

    def end(self, number: int, texts: int = 1) -> None:
        """Count texts of a job whose batch has ended."""
        self._counts[number % _SLOTS] -= texts

    def __contains__(self, number: int) -> bool:
        return self._counts[number % _SLOTS] > 0


EngineSocket = tuple[socket.socket, RunningTextCounts]
"""One end of a connection to the engine, and the table of its running jobs."""


def handoff_pair() -> tuple[socket.socket, socket.socket]:
    """Return the HTTP processes' end for requests, and the engine's end, which accepts them.

    Requests wait in the socket while no engine runs.
    """
    requesting, accepting = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    requesting.setblocking(False)  # an event loop must not wait for space in the socket
    return requesting, accepting


def request_connection(connect_fd: int) -> EngineSocket:
    """Open a connection to the engine and return this end; raises OSError, maybe temporary.

    connect_fd: the HTTP processes' end of the handoff pair.
    """
    running, file = RunningTextCounts.create()
    with file:
        ours, theirs = socket.socketpair()
        try:
            with theirs, socket.fromfd(connect_fd, socket.AF_UNIX, socket.SOCK_DGRAM) as handoff:
                socket.send_fds(handoff, [b"connection"], [theirs.fileno(), file.fileno()])
        except OSError:
            ours.close()
            raise
    return ours, running


def accept_connection(handoff: socket.socket) -> EngineSocket:
    """Return the engine's end of the oldest requested connection; waits for a request.

    handoff: the engine's end of the handoff pair.
    """
    _, [connection_fd, table_fd], *_ = socket.recv_fds(handoff, 16, 2)
    os.set_inheritable(connection_fd, False)
    running = RunningTextCounts.attach(table_fd)
    os.close(table_fd)
    return socket.socket(fileno=connection_fd), running


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
