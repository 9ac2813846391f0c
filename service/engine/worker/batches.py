"""Gives out what waits, pass by pass, to the threads that compute."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from service.engine.protocol.progress import Progress
from service.engine.worker.forward import Text
from service.engine.worker.job_table import JobTable
from service.engine.worker.throughput import Throughput


@dataclass(slots=True, eq=False)
class Batch:
    """Texts that are computed as one.

    tokens: of all texts. apart: on one thread. away: whether it is long, and the leader is away as
    long.
    """

    texts: Sequence[Text]
    tokens: int
    apart: bool
    away: bool


class Batches:
    """Who computes what: see service.engine.worker.loop for the leader, followers and the stand-in.

    A text that is to be alone is computed while no other pass runs. Before a pass begins, its jobs
    are marked as running, for whoever asks what an engine that died was computing.
    """

    def __init__(
        self, ledger: JobTable, pace: Throughput, progress: Progress, books: threading.Lock
    ) -> None:
        """progress: told of each pass. books: held by whoever reads or writes the ledger."""
        self._ledger, self._pace, self._progress, self._books = ledger, pace, progress, books
        self._work = threading.Condition(books)  # for followers
        self._leave = threading.Condition(books)  # of the leader
        self._done = threading.Condition(books)  # with a pass
        self._apart = self._away = self._ended = False
        self._alone = False  # a text is computed that is to be alone, or waits until it can be
        self._running = 0

    def lead(self) -> Batch | None:
        """The leader's next pass, if there is work."""
        with self._books:
            while self._alone:
                self._done.wait()
            waiting, running, shares = self._ledger.waiting, self._running, self._pace.shares
            self._apart = apart = shares.apart(waiting, running)
            texts = self._ledger.take(shares.size(waiting, apart))
            longest = len(texts[0].ids) if len(texts) == 1 else 0
            if not shares.long(longest):
                return self._begin(texts, apart)
            self._away = self._apart = True
            self._leave.notify()
            together = not running and shares.together(longest, waiting)
            return self._begin(texts, apart and not together, away=True)

    def follow(self) -> Batch | None:
        """A follower's next pass, when there is more than the leader does; None at the end."""
        with self._books:
            self._work.wait_for(lambda: self._ended or self._follows())
            if self._ended:
                return None
            most = self._pace.shares.size(self._ledger.waiting, True)
            return self._begin(self._ledger.take(most))

    def stand_in(self) -> Batch | None:
        """A pass of short texts, if the leader is away and every follower is at something."""
        with self._books:
            if not self._away or self._alone or self._ledger.idle:
                return None
            if self._running < self._pace.shares.lanes:
                self._work.notify()
                return None
            return self._begin(self._ledger.short(self._pace.shares.full_apart))

    def left(self) -> bool:
        """Wait until the leader is away; False at the end."""
        with self._books:
            self._leave.wait_for(lambda: self._ended or self._away)
            return not self._ended

    def done(self, one: Batch) -> None:
        """A pass was computed. Call with the books open."""
        self._running -= 1
        self._progress.end(one)
        for text in one.texts:
            line, number = text.item.job
            line.running.end(number)
        if one.away:
            self._away = False
        if self._alone:
            self._alone = not one.texts[0].alone
            self._work.notify_all()
            self._done.notify_all()

    def end(self) -> None:
        """Nobody waits for a pass any more."""
        with self._books:
            self._ended = True
            self._work.notify_all()
            self._leave.notify_all()

    def _begin(self, texts: Sequence[Text], apart: bool = True, away: bool = False) -> Batch | None:
        if self._apart and not self._ledger.idle:
            self._work.notify()
        if not texts:
            return None
        if texts[0].alone:
            self._alone = True
            self._done.wait_for(lambda: not self._running)
        self._running += 1
        for text in texts:
            line, number = text.item.job
            line.running.begin(number)
        one = Batch(texts, sum([text.item.length for text in texts]), apart, away)
        self._progress.begin(one, self._pace.expected(one.tokens, apart))
        return one

    def _follows(self) -> bool:
        return self._apart and not self._alone and not self._ledger.idle
