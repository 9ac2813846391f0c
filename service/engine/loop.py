"""The engine's loop: receive, schedule, encode, reply; on one thread, or on some side by side."""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from models.threads import alone
from service.engine.forward import Model, Text, forward
from service.engine.ledger import Ledger
from service.engine.lines import GONE, Mail
from service.engine.messages import pack_outcomes, unpack_jobs
from service.engine.pace import Pace
from service.engine.shares import Shares

log = logging.getLogger(__name__)


class Lines(Protocol):
    """What the loop needs of its lines: see service.engine.lines."""

    def receive(self, wait: bool) -> Mail: ...


class Loop:
    """Starts a pass as soon as there is work; the next one forms while it runs.

    The thread that calls `run` leads: it waits for messages, and computes few texts with all of the
    model's threads. When more wait than that pays for, each thread computes passes of its own: none
    waits for another at a pass's end, and an answer leaves when its pass is done.

    Where a device computes, two threads take turns as leaders: while it is at the pass of one, the
    other reads, packs and queues what has come, so that the device does not wait for that.
    """

    def __init__(self, lines: Lines, model: Model, shares: Shares, rate: float) -> None:
        """rate: tokens per second of a full pass, as measured before the first."""
        self._lines, self._model, self._shares = lines, model, shares
        self._ledger, self._pace = Ledger(), Pace(shares, rate)
        self._floor = threading.Lock()  # of whoever reads the lines
        self._books = threading.Condition()  # of all that follows, and of the ledger
        self._apart = self._ended = False
        self._passes = 0  # that are being computed

    def run(self) -> None:
        """Serve until the server is no more."""
        work = [self._follow] * (self._shares.lanes - 1) + [self._lead] * self._shares.ahead
        # Daemons: a process whose first thread fails does not wait for them.
        helpers = [threading.Thread(target=_guard, args=[each], daemon=True) for each in work]
        for helper in helpers:
            helper.start()
        with contextlib.suppress(EOFError):
            self._lead()
        self._end()
        for helper in helpers:
            helper.join()

    def _lead(self) -> None:
        while True:
            self.turn()

    def turn(self) -> None:
        """Take what has come, waiting for it if there is nothing to do, and run one pass."""
        with self._floor:
            self._receive(wait=self._ledger.idle)
        with self._books:
            waiting = self._ledger.waiting
            self._apart = self._shares.apart(waiting, self._passes)
            texts = self._take(self._shares.size(waiting, self._apart))
        if texts:
            with alone() if self._apart else contextlib.nullcontext():
                self._work(texts, self._apart)

    def _follow(self) -> None:
        """Run passes while there is more to do than the leader does."""
        with alone():
            while texts := self._wait():
                self._work(texts, apart=True)
                self._glance()

    def _wait(self) -> Sequence[Text]:
        """The texts of a pass, when there are some for a follower; none at the end."""
        with self._books:
            self._books.wait_for(lambda: self._ended or (self._apart and not self._ledger.idle))
            if self._ended:
                return ()
            return self._take(self._shares.size(self._ledger.waiting, apart=True))

    def _glance(self) -> None:
        """Take what has come, unless another thread waits for it."""
        if self._floor.acquire(blocking=False):
            try:
                self._receive(wait=False)
            finally:
                self._floor.release()

    def _end(self) -> None:
        with self._books:
            self._ended = True
            self._books.notify_all()

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

    def _take(self, size: int) -> Sequence[Text]:
        """The texts of the next pass. Call with the books open."""
        texts = self._ledger.take(size)
        self._passes += bool(texts)
        if self._apart and not self._ledger.idle:
            self._books.notify()
        return texts

    def _work(self, texts: Sequence[Text], apart: bool) -> None:
        start = time.perf_counter()
        found = forward(self._model, texts)
        with self._books:
            self._passes -= 1
            tokens = sum(text.item.length for text in texts)
            began = self._pace.observe(tokens, start, time.perf_counter(), apart)
            outbox = self._ledger.settle(texts, found, began, self._pace.rate)
            for line, outcomes in outbox.items():
                line.send(*pack_outcomes(outcomes))


def _guard(work: Callable[[], None]) -> None:
    """What a thread does until the server is no more; if it fails, so does the process."""
    try:
        with contextlib.suppress(EOFError):
            work()
    except BaseException:
        log.critical("a thread of the engine has failed, and the engine with it", exc_info=True)
        os._exit(1)
