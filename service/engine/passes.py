"""Gives out what waits, pass by pass, to the threads that compute."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from service.engine.forward import Text
from service.engine.ledger import Ledger
from service.engine.shares import Shares


@dataclass(frozen=True, slots=True)
class Pass:
    """Texts that are computed as one.

    apart: on one thread. away: whether it is long, and the leader is away as long.
    """

    texts: Sequence[Text]
    apart: bool
    away: bool = False


class Passes:
    """Who computes what: see service.engine.loop for the leader, followers and the stand-in."""

    def __init__(self, ledger: Ledger, shares: Shares, books: threading.Lock) -> None:
        """books: held by whoever reads or writes the ledger."""
        self._ledger, self._shares, self._books = ledger, shares, books
        self._work = threading.Condition(books)  # for followers
        self._leave = threading.Condition(books)  # of the leader
        self._apart = self._away = self._ended = False
        self._running = 0

    def lead(self) -> Pass | None:
        """The leader's next pass, if there is work."""
        with self._books:
            waiting, running = self._ledger.waiting, self._running
            self._apart = apart = self._shares.apart(waiting, running)
            texts = self._ledger.take(self._shares.size(waiting, apart))
            longest = len(texts[0].ids) if len(texts) == 1 else 0
            if not self._shares.long(longest):
                return self._begin(texts, apart)
            self._away = self._apart = True
            self._leave.notify()
            together = not running and self._shares.together(longest, waiting)
            return self._begin(texts, apart and not together, away=True)

    def follow(self) -> Pass | None:
        """A follower's next pass, when there is more than the leader does; None at the end."""
        with self._books:
            self._work.wait_for(lambda: self._ended or (self._apart and not self._ledger.idle))
            if self._ended:
                return None
            return self._begin(self._ledger.take(self._shares.size(self._ledger.waiting, True)))

    def stand_in(self) -> Pass | None:
        """A pass of short texts, if the leader is away and every follower is at something."""
        with self._books:
            if not self._away or self._ledger.idle:
                return None
            if self._running < self._shares.lanes:
                self._work.notify()
                return None
            return self._begin(self._ledger.short(self._shares.full(apart=True)))

    def left(self) -> bool:
        """Wait until the leader is away; False at the end."""
        with self._books:
            self._leave.wait_for(lambda: self._ended or self._away)
            return not self._ended

    def done(self, one: Pass) -> None:
        """A pass was computed. Call with the books open."""
        self._running -= 1
        if one.away:
            self._away = False

    def end(self) -> None:
        """Nobody waits for a pass any more."""
        with self._books:
            self._ended = True
            self._work.notify_all()
            self._leave.notify_all()

    def _begin(self, texts: Sequence[Text], apart: bool = True, away: bool = False) -> Pass | None:
        if self._apart and not self._ledger.idle:
            self._work.notify()
        if not texts:
            return None
        self._running += 1
        return Pass(texts, apart, away)
