"""Real prose for measurements, cut at random places from Python's reference manual.

Texts are hardly ever repeated, so a cache in the server has no effect.
"""

import random
from collections.abc import Sequence
from functools import cache
from pydoc_data.topics import topics

_HELD_OUT = 0.2  # share of the manual, at its end, for calibration texts


@cache
def _words() -> Sequence[str]:
    return " ".join(topics.values()).split()


class Corpus:
    """A source of texts; the same seed gives the same texts. The two parts share no text.

    held_out: whether texts come from the part for calibration, not from the part for measurements.
    """

    def __init__(self, dice: random.Random, *, held_out: bool = False) -> None:
        border = int(len(_words()) * (1 - _HELD_OUT))
        self._words = _words()[border:] if held_out else _words()[:border]
        self._dice = dice

    def cut(self, fewest: int, most: int) -> str:
        """Return a text of `fewest` to `most` words."""
        length = self._dice.randint(fewest, most)
        start = self._dice.randrange(len(self._words) - length)
        return " ".join(self._words[start : start + length])
