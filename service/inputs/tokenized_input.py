"""The token ids of one input, and how many were cut off."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.engine.protocol.messages import TokenIds


@dataclass(frozen=True, slots=True)
class TokenizedInput:
    """The token ids of one input, and how many tokens were cut off, or fewer if not counted.

    skip: how many of the ids, the first ones of each window, are not pooled.
    windows: for an input that is read in several, their ids, which `ids` holds one after another.
    weights: how many ids of each window are the input's own.
    """

    ids: TokenIds
    dropped: int
    skip: int = 0
    windows: Sequence[TokenIds] = ()
    weights: Sequence[int] = ()

    def as_json(self) -> dict[str, int | bool]:
        """Describe the input for a response."""
        fields = {"tokens": len(self.ids), "truncated": self.dropped > 0, "dropped": self.dropped}
        return {**fields, "windows": len(self.windows)} if self.windows else fields
