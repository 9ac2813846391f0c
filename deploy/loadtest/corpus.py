"""Real prose to measure with: cut at random places out of Python's reference manual.

The cuts hardly ever repeat, so a server that remembers texts gains nothing.
"""

import random
from collections.abc import Sequence
from functools import cache
from pydoc_data.topics import topics

_HELD_OUT = 0.2  # the share of the manual, at its end, that texts to calibrate with come from


@cache
def _words() -> Sequence[str]:
    return " ".join(topics.values()).split()


class Corpus:
    """A source of texts; the same seed gives the same texts. No text of one part is in the other.

    held_out: cut out of the part for calibrating, instead of the one for measuring.
    """

    def __init__(self, dice: random.Random, *, held_out: bool = False) -> None:
        border = int(len(_words()) * (1 - _HELD_OUT))
        self._words = _words()[border:] if held_out else _words()[:border]
        self._dice = dice

    def cut(self, fewest: int, most: int) -> str:
        """A text of `fewest` to `most` words."""
        length = self._dice.randint(fewest, most)
        start = self._dice.randrange(len(self._words) - length)
        return " ".join(self._words[start : start + length])
