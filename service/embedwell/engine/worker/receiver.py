"""Receive jobs from all connections into the job table."""

import threading
import time
from contextlib import AbstractContextManager
from typing import Protocol

from embedwell.engine.wire.messages import unpack_jobs
from embedwell.engine.worker.connections import CLOSED, ReceivedMessages
from embedwell.engine.worker.job_table import JobTable


class MessageSource(Protocol):
    """Interface of embedwell.engine.worker.connections."""

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
