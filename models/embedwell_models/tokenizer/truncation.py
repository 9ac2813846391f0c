"""Truncation of texts to the maximum length of a model."""

from dataclasses import dataclass
from typing import Literal, get_args

from embedwell_models.config.json_config import JsonConfig

Side = Literal["right", "left"]
"""Side on which tokens are truncated."""


@dataclass(frozen=True, slots=True)
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


def read_side(options: JsonConfig) -> Side | None:
    """Read the side from options; None if it is not set. Raises ModelError for another value."""
    side: Side | None = options.require("truncation_side", None, *get_args(Side))
    return side
