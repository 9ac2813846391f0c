"""Receive jobs from all connections into the job table."""

import threading
import time
from contextlib import AbstractContextManager
from typing import Protocol

from service.engine.protocol.messages import unpack_jobs
from service.engine.worker.connections import GONE, Mail
from service.engine.worker.job_table import JobTable


class Connections(Protocol):
    """What is read: see service.engine.worker.connections."""

    def receive(self, wait: bool) -> Mail: ...


class Receiver:
    """Reads the connections, on one thread at a time; every method raises EOFError at shutdown."""

    def __init__(
        self,
        connections: Connections,
        job_table: JobTable,
        lock: AbstractContextManager[object],
        linger: float = 0.0,
    ) -> None:
        """lock: held while the job table is read or written.

        linger: seconds for which an idle thread polls before it sleeps.
        """
        self._connections, self._job_table, self._lock = connections, job_table, lock
        self._linger = linger
        self._reading = threading.Lock()  # one thread at a time

    def look(self) -> None:
        """Take what has come; where there is nothing to do, wait for it, and for who reads."""
        if self._job_table.idle:
            with self._reading:
                self._expect()
                self._receive(wait=self._job_table.idle)
        else:
            self.glance()

    def wait(self) -> None:
        """Wait for what comes, and take it."""
        with self._reading:
            self._receive(wait=True)

    def glance(self) -> None:
        """Take what has come, unless another thread reads."""
        if self._reading.acquire(blocking=False):
            try:
                self._receive(wait=False)
            finally:
                self._reading.release()

    def _expect(self) -> None:
        # A client that has its answer mostly asks again, and to wake a thread takes a tenth of a
        # short text's time; what it needs is in its processor's caches yet, besides.
        end = time.perf_counter() + self._linger
        while self._job_table.idle and time.perf_counter() < end:
            self._receive(wait=False)

    def _receive(self, wait: bool) -> None:
        messages = self._connections.receive(wait)
        with self._lock:
            for connection, message in messages:
                (verb, content), body = message
                if verb == "jobs":
                    for number, job in unpack_jobs(content, body):
                        self._job_table.accept((connection, number), job)
                elif message is GONE:
                    self._job_table.drop_connection(connection)
                else:
                    self._job_table.forget((connection, content))
