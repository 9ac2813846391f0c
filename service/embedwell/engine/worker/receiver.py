"""Accept connections of HTTP processes, and receive their jobs into the job table."""

import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from embedwell.engine.wire.engine_sockets import HttpProcessConnection, Message, accept_connection
from embedwell.engine.wire.messages import unpack_jobs
from embedwell.engine.worker.job_table import JobTable

CLOSED: Message = (["closed", None], b"")  # the message that ends a connection

ReceivedMessages = list[tuple[HttpProcessConnection, Message]]


class Connections:
    """Accepts connections, and sends the greeting on each."""

    def __init__(self, handoff: socket.socket, shutdown_fd: int, greeting: Message) -> None:
        """handoff: the engine's end of the hand-off socket pair (see engine_sockets).

        shutdown_fd: a descriptor that reaches end of file when the server shuts down.
        """
        self._handoff, self._greeting = handoff, greeting
        self._selector = selectors.DefaultSelector()
        self._watch(handoff, self._accept)
        self._watch(shutdown_fd, _raise_shutdown)

    def receive(self, wait: bool) -> ReceivedMessages:
        """Receive messages of all connections; raises EOFError when the server shuts down.

        wait: block until there is a message.
        """
        ready = self._selector.select(None if wait else 0)
        return [messages for key, _ in ready for messages in key.data()]

    def close(self) -> None:
        """Close every connection."""
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket) and key.fileobj is not self._handoff:
                key.fileobj.close()
        self._selector.close()

    def _watch(self, source: socket.socket | int, handler: Callable[[], ReceivedMessages]) -> None:
        self._selector.register(source, selectors.EVENT_READ, handler)

    def _accept(self) -> ReceivedMessages:
        sock, running = accept_connection(self._handoff)
        connection = HttpProcessConnection(sock, running)
        self._watch(sock, lambda: self._read(sock, connection))
        connection.send(*self._greeting)
        return []

    def _read(self, sock: socket.socket, connection: HttpProcessConnection) -> ReceivedMessages:
        try:
            return [(connection, message) for message in connection.receive(wait=False)]
        except EOFError:
            self._selector.unregister(sock)
            sock.close()
            return [(connection, CLOSED)]


def _raise_shutdown() -> ReceivedMessages:
    raise EOFError


class MessageSource(Protocol):
    """Interface of Connections."""

    def receive(self, wait: bool) -> ReceivedMessages: ...


class Receiver:
    """Reads the connections, on one thread at a time; every method raises EOFError at shutdown."""

    def __init__(
        self,
        connections: MessageSource,
        job_table: JobTable,
        lock: AbstractContextManager[object],
        linger: float = 0.0,
    ) -> None:
        """lock: held while the job table is read or written.

        linger: seconds for which an idle thread polls before it sleeps.
        """
        self._connections, self._job_table, self._lock = connections, job_table, lock
        self._linger = linger
        self._read_lock = threading.Lock()  # one thread at a time

    def poll_or_wait(self) -> None:
        """Receive messages; sleep until there are some only if no text waits."""
        if self._job_table.nothing_waits:
            with self._read_lock:
                self._poll_until_work()
                self._receive(wait=self._job_table.nothing_waits)
        else:
            self.poll()

    def wait(self) -> None:
        """Wait for messages and receive them."""
        with self._read_lock:
            self._receive(wait=True)

    def poll(self) -> None:
        """Receive waiting messages, unless another thread already reads."""
        if self._read_lock.acquire(blocking=False):
            try:
                self._receive(wait=False)
            finally:
                self._read_lock.release()

    def _poll_until_work(self) -> None:
        # Clients often send the next request right after a result. Waking a sleeping thread would
        # cost a tenth of a short text's time, and its CPU caches.
        end = time.perf_counter() + self._linger
        while self._job_table.nothing_waits and time.perf_counter() < end:
            self._receive(wait=False)

    def _receive(self, wait: bool) -> None:
        messages = self._connections.receive(wait)
        with self._lock:
            for connection, message in messages:
                (message_type, content), body = message
                if message_type == "jobs":
                    for number, job in unpack_jobs(content, body):
                        self._job_table.add((connection, number), job)
                elif message is CLOSED:
                    self._job_table.remove_connection(connection)
                else:
                    self._job_table.remove((connection, content))
