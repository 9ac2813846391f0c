"""Admission control: reject requests that would wait too long."""

import math
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from embedwell.engine.wire.engine_state import QUEUED_TOKENS, CounterSlot, SharedCounters
from embedwell.engine.wire.messages import SIZE_CLASSES, size_class
from embedwell.errors import Overloaded, TooLarge

_SMALL_SIZE = 2048  # tokens of the engine; characters, or another unit, of a WorkQueue
# Plain integers index faster than an enum's members.
_LAST_USED = int(CounterSlot.LAST_USED)
_TIMEOUT_MARGIN = 1.5  # so that a request which may succeed is not refused for ever
_READ_ANYWAY = 64  # one of so many requests that could be refused unread, for the estimate
_SMALL_BODY = 512  # bytes; of fewer, fields other than the inputs are a large part
_FADING = 0.01  # change of a bound with each body that does not reach it


class Rate(Protocol):
    """Tokens, or other units of work, that are done per second."""

    @property
    def latest(self) -> float:
        """The latest rate; 0 if unknown."""

    @property
    def reliable_rate(self) -> float:
        """The rate to decide that a request will time out; 0 if there is none."""


class KnownRate:
    """A rate that its owner sets."""

    def __init__(self, latest: float, reliable_rate: float = 0.0) -> None:
        self.latest, self.reliable_rate = latest, reliable_rate


class BodySizes:
    """The fewest and the most tokens per byte of recent bodies, by which the next ones are judged.

    A body beyond a bound moves the bound at once, and the others move it back slowly.
    """

    def __init__(self) -> None:
        self._fewest, self._most = math.inf, 0.0

    def observe(self, size: int, tokens: int) -> None:
        """Record the tokens of a body of so many bytes."""
        if not size or not tokens:
            return
        if size >= _SMALL_BODY:
            self._fewest = min(tokens / size, self._fewest * (1 + _FADING))
        self._most = max(tokens / size, self._most * (1 - _FADING))

    def estimate(self, size: int) -> tuple[int, int]:
        """Return the fewest and the most tokens that a body of so many bytes probably has."""
        is_known = size >= _SMALL_BODY and self._fewest < math.inf
        fewest = int(size * self._fewest) if is_known else 1
        return max(fewest, 1), max(int(size * self._most), 1)


class Admission:
    """Rejects requests by their expected wait: tokens served before / tokens per second.

    The engine spends about half of its time on jobs that are due first (see its scheduler). So a
    request waits for twice the tokens of requests no larger than itself, at most the whole queue.
    """

    def __init__(  # noqa: PLR0913 - the last ones by name
        self,
        max_wait: float,
        rate: Rate,
        counters: SharedCounters,
        *,
        max_wait_large: float = math.inf,
        timeout: float = math.inf,
        work: str = "the engine",
    ) -> None:
        """max_wait: seconds for a request of at most 2048 tokens.

        rate: tokens per second; asked for each request, as it changes.
        counters: count queued tokens in all processes.
        max_wait_large: seconds for a larger request.
        timeout: seconds after which a request is cancelled.
        work: what requests wait for, in messages.
        """
        self._max_wait, self._rate, self._counters = max_wait, rate, counters
        self._queued = counters.column(QUEUED_TOKENS)
        self._max_wait_large = max_wait_large
        self._timeout, self._work = timeout, work
        self._class_slots = counters.allocate(SIZE_CLASSES, gauge=True)  # of the first size class
        self._bodies, self._refusable = BodySizes(), 0

    @property
    def queued_tokens(self) -> int:
        """Tokens admitted and not computed yet, in all processes."""
        return int(sum(self._queued))

    @property
    def backlog_seconds(self) -> float:
        """Seconds to compute the whole queue; 0 if the rate is unknown."""
        rate = self._rate.latest
        return sum(self._queued) / rate if rate else 0.0

    def check(self, tokens: int, spent: float = 0.0) -> None:
        """Raise Overloaded if a request of this size would wait too long, or time out.

        Raises TooLarge if it would time out even without waiting.

        spent: seconds of the timeout that have passed already.
        """
        rate = self._rate.reliable_rate
        if rate and tokens > _TIMEOUT_MARGIN * self._timeout * rate:
            raise self._too_large(tokens, rate)
        wait = self._expected_wait(tokens) if tokens else 0
        if not wait:
            return
        limit = self._limit(tokens)
        until_timeout = max(self._timeout - spent - self._seconds(tokens), 0.0)
        if wait > min(limit, until_timeout):
            raise self._overloaded(tokens, wait, limit, until_timeout)

    def check_unread(self, body_bytes: int) -> None:
        """Raise Overloaded if a request would wait too long by the estimate of its tokens.

        A few such requests pass, so that the estimate follows the clients.
        """
        if self.backlog_seconds <= self._max_wait:
            return
        fewest, most = self._bodies.estimate(body_bytes)
        wait, limit = self._expected_wait(fewest), self._limit(most)
        if wait > limit:
            self._refusable += 1
            if self._refusable % _READ_ANYWAY:
                raise self._overloaded(fewest, wait, limit)

    @contextmanager
    def admit(self, tokens: int, spent: float = 0.0, body_bytes: int = 0) -> Iterator[None]:
        """Count tokens as queued during the block; raises Overloaded and TooLarge.

        spent: seconds of the timeout that have passed already.
        body_bytes: size of the request's body; 0 if unknown.
        """
        self._bodies.observe(body_bytes, tokens)
        self.check(tokens, spent)
        size = size_class(tokens)
        self._count(size, tokens)
        try:
            yield
        finally:
            self._count(size, -tokens)

    def _count(self, size: int, tokens: int) -> None:
        row = self._counters.row
        row[QUEUED_TOKENS] += tokens
        row[self._class_slots + size] += tokens
        row[_LAST_USED] = time.monotonic()

    def _too_large(self, tokens: int, rate: float) -> TooLarge:
        return TooLarge(
            f"{tokens} tokens take about {tokens / rate:.0f} s, but a request times out after "
            f"{self._timeout:.0f} s; send about {self._timeout * rate:.0f} tokens per request",
            code="too_many_tokens",
        )

    def _overloaded(
        self, tokens: int, wait: float, limit: float, until_timeout: float = math.inf
    ) -> Overloaded:
        reason = (
            f"EMBEDWELL_MAX_WAIT is {self._max_wait:g} s for small requests, "
            f"EMBEDWELL_MAX_WAIT_LARGE {self._max_wait_large:g} s for large ones"
        )
        if until_timeout < limit:
            reason += (
                f"; this one takes {self._seconds(tokens):.1f} s, and a request times out after "
                f"{self._timeout:g} s"
            )
        limit = min(limit, until_timeout)
        digits = _digits(wait, limit)
        return Overloaded(
            f"a request of this size would wait {wait:.{digits}f} s for {self._work}, but the "
            f"limit is {limit:.{digits}f} s ({reason}); try again later",
            # The queue is done then; jitter prevents clients from retrying together.
            retry_after=wait * random.uniform(1, 1.5),  # noqa: S311
        )

    def _limit(self, tokens: int) -> float:
        return self._max_wait if tokens <= _SMALL_SIZE else self._max_wait_large

    def _expected_wait(self, tokens: int) -> float:
        backlog = self.backlog_seconds
        if backlog <= self._max_wait:  # a cheap check for the usual case
            return backlog
        slots = range(self._class_slots, self._class_slots + size_class(tokens) + 1)
        smaller = sum(self._counters.total(slot) for slot in slots)
        return self._seconds(min(self.queued_tokens, 2 * smaller))

    def _seconds(self, tokens: float) -> float:
        rate = self._rate.latest
        return tokens / rate if rate else 0.0


def check_unread(admissions: Sequence[Admission], body_bytes: int) -> None:
    """Raise Overloaded if each of several models would refuse a request; see `Admission`."""
    error = None
    for admission in admissions:
        try:
            admission.check_unread(body_bytes)
        except Overloaded as refused:
            error = refused
        else:
            return
    if error is not None:
        raise error


def _digits(larger: float, smaller: float) -> int:
    """Return how many decimal places show that two numbers differ, at least one."""
    return next((n for n in range(1, 9) if f"{larger:.{n}f}" != f"{smaller:.{n}f}"), 9)
