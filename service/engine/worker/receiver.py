"""What comes on the engine's lines goes into its ledger."""

import threading
import time
from contextlib import AbstractContextManager
from typing import Protocol

from service.engine.protocol.messages import unpack_jobs
from service.engine.worker.connections import GONE, Mail
from service.engine.worker.job_table import JobTable


class Lines(Protocol):
    """What is read: see service.engine.worker.connections."""

    def receive(self, wait: bool) -> Mail: ...


class Receiver:
    """Reads the lines, on one thread at a time. Every method raises EOFError at the end of all."""

    def __init__(
        self,
        lines: Lines,
        ledger: JobTable,
        books: AbstractContextManager[object],
        linger: float = 0.0,
    ) -> None:
        """books: held by whoever reads or writes the ledger.

        linger: seconds in which whoever has nothing to do looks again and again before it sleeps.
        """
        self._lines, self._ledger, self._books = lines, ledger, books
        self._linger = linger
        self._floor = threading.Lock()  # of whoever reads

    def look(self) -> None:
        """Take what has come; where there is nothing to do, wait for it, and for who reads."""
        if self._ledger.idle:
            with self._floor:
                self._expect()
                self._receive(wait=self._ledger.idle)
        else:
            self.glance()

    def wait(self) -> None:
        """Wait for what comes, and take it."""
        with self._floor:
            self._receive(wait=True)

    def glance(self) -> None:
        """Take what has come, unless another thread reads."""
        if self._floor.acquire(blocking=False):
            try:
                self._receive(wait=False)
            finally:
                self._floor.release()

    def _expect(self) -> None:
        # A client that has its answer mostly asks again, and to wake a thread takes a tenth of a
        # short text's time; what it needs is in its processor's caches yet, besides.
        end = time.perf_counter() + self._linger
        while self._ledger.idle and time.perf_counter() < end:
            self._receive(wait=False)

    def _receive(self, wait: bool) -> None:
        mail = self._lines.receive(wait)
        with self._books:
            for line, message in mail:
                (verb, content), body = message
                if verb == "jobs":
                    for number, job in unpack_jobs(content, body):
                        self._ledger.accept((line, number), job)
                elif message is GONE:
                    self._ledger.leave(line)
                else:
                    self._ledger.forget((line, content))
