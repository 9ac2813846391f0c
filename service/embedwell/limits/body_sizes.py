"""Estimate the tokens of a request from the bytes of its body, before it is read."""

import math

_SMALL_BODY = 512  # bytes; of fewer, fields other than the inputs are a large part
_FADING = 0.01  # change of a bound with each body that does not reach it


class BodySizes:
    """The fewest and the most tokens per byte of recent bodies.

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
