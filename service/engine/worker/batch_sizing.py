"""How many tokens go into a batch: arithmetic, nothing else."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

_LEAST = 64  # tokens of a thread: fewer are not worth reading all the weights for
_ENOUGH = 256  # tokens of a thread: more of them together is no faster
_MOST = 512  # tokens of a thread's pass: fewer, and answers leave one by one; more, and they wait
_TARGET = 0.03  # seconds of a pass on a CPU: what comes waits for one, and is computed in the next
_LEVEL = 0.8  # of all lanes must have work until a long text ends that one of them computes


@dataclass(frozen=True)
class BatchSizing:
    """budget: the most tokens of a pass. lanes: how many passes can run, each on its own thread.

    ahead: how many can wait on the device for the one that it computes.

    rate: tokens per second of the whole engine, as lately measured. The slower a CPU is, the fewer
    tokens has a pass, so that a query beside many long texts waits as long as on a fast one.
    """

    budget: int
    lanes: int = 1
    ahead: int = 0
    rate: float = inf

    def at(self, rate: float) -> "BatchSizing":
        """Those of another rate."""
        return replace(self, rate=rate)

    def apart(self, waiting: int, batches: int) -> bool:
        """Whether to compute with one thread, when so many tokens wait and so many passes run."""
        return self.lanes > 1 and (batches > 0 or waiting > self.full_together)

    def size(self, waiting: int, apart: bool) -> int:
        """The most tokens of the next pass. Apart: such that all lanes end at about one time."""
        if not apart:
            return self.full_together
        lanes, most = self.lanes, self.full_apart
        rounds = max(1, -(-waiting // (lanes * most)))
        return min(most, max(_LEAST, -(-waiting // (lanes * rounds))))

    def long(self, tokens: int) -> bool:
        """Whether a text of so many is more than a pass has: others must not wait for it."""
        return tokens > self.full_apart

    def together(self, longest: int, waiting: int) -> bool:
        """Whether all threads are to compute a long text, which is one of all that waits.

        With one, the other lanes would be done with the rest long before.
        """
        return waiting < _LEVEL * self.lanes * longest

    def full(self, apart: bool) -> int:
        """Tokens that a pass has when the engine is busy."""
        return self.full_apart if apart else self.full_together

    @cached_property
    def full_apart(self) -> int:
        return self._full(1, _MOST)

    @cached_property
    def full_together(self) -> int:
        return self._full(self.lanes, _ENOUGH * self.lanes)

    def _full(self, threads: int, enough: int) -> int:
        if self.ahead:  # a device, which is slower with fewer
            return self.budget
        most = self.budget if self.lanes == 1 else min(self.budget, enough)
        timely = _TARGET * self.rate * threads / self.lanes
        return int(min(most, max(timely, _LEAST * threads)))
