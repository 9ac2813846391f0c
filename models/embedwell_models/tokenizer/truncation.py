"""Truncation of texts to the maximum length of a model, and their parts of at most this length."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from embedwell_models.config.json_config import JsonConfig

Side = Literal["right", "left"]
"""Side on which tokens are truncated."""


@dataclass(slots=True)
class TruncatedIds:
    """Token ids of a text, special tokens included.

    dropped: number of truncated tokens. It is a lower bound if a count limit stopped the
    tokenization of a long text.
    """

    ids: list[int]
    dropped: int = 0

    def remaining(self, first: int, side: Side) -> int:
        """Return how many of the `first` first tokens remain after truncation on a side."""
        return max(first - self.dropped, 0) if side == "left" else first


def remaining_slice(length: int, count: int, side: Side) -> slice:
    """Return the first `count` positions of `length`, or the last if `side` is "left"."""
    return slice(0, count) if side == "right" else slice(max(length - count, 0), length)


def cut(ids: Sequence[int], count: int, side: Side) -> Sequence[int]:
    """Return the first `count` ids, or the last ids if `side` is "left"."""
    return ids[remaining_slice(len(ids), count, side)]


def common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the length of the longest common prefix of two rows of ids."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def parts(length: int, size: int) -> list[slice]:
    """Split `length` tokens into parts of at most `size`; no tokens are one empty part."""
    return [slice(start, start + size) for start in range(0, max(length, 1), size)]


def read_side(options: JsonConfig) -> Side | None:
    """Read the side from options; None if it is not set. Raises ModelError for another value."""
    side: Side | None = options.require("truncation_side", None, *get_args(Side))
    return side
