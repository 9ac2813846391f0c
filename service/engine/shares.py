"""How what waits is divided into passes: arithmetic, nothing else."""

from dataclasses import dataclass

_LEAST = 64  # tokens of a thread: fewer are not worth reading all the weights for
_ENOUGH = 256  # tokens of a thread: more of them together is no faster
_MOST = 512  # tokens of a thread's pass: fewer, and answers leave one by one; more, and they wait
_LEVEL = 0.8  # of all lanes must have work until a long text ends that one of them computes


@dataclass(frozen=True)
class Shares:
    """budget: the most tokens of a pass. lanes: how many passes can run, each on its own thread.

    ahead: how many can wait on the device for the one that it computes.
    """

    budget: int
    lanes: int = 1
    ahead: int = 0

    def apart(self, waiting: int, passes: int) -> bool:
        """Whether to compute with one thread, when so many tokens wait and so many passes run."""
        return self.lanes > 1 and (passes > 0 or waiting > self.full(apart=False))

    def size(self, waiting: int, apart: bool) -> int:
        """The most tokens of the next pass. Apart: such that all lanes end at about one time."""
        if not apart:
            return self.budget
        lanes, most = self.lanes, self.full(apart=True)
        rounds = max(1, -(-waiting // (lanes * most)))
        return min(most, max(_LEAST, -(-waiting // (lanes * rounds))))

    def long(self, tokens: int) -> bool:
        """Whether a text of so many is more than a pass has: others must not wait for it."""
        return tokens > self.full(apart=True)

    def together(self, longest: int, waiting: int) -> bool:
        """Whether all threads are to compute a long text, which is one of all that waits.

        With one, the other lanes would be done with the rest long before.
        """
        return waiting < _LEVEL * self.lanes * longest

    def full(self, apart: bool) -> int:
        """Tokens that a pass has when the engine is busy."""
        if self.lanes == 1:
            return self.budget
        return min(self.budget, _MOST if apart else _ENOUGH * self.lanes)
