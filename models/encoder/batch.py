"""What an encoder reads: sequences of token ids laid one after another, without padding."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.config.blueprint import LARGEST

Row = Sequence[int] | npt.NDArray[np.integer]
Rows = Sequence[Row]
Integers = npt.NDArray[np.int64]


def up_to(row: Row, end: int) -> Row:
    """The ids up to the first `end`, all of them where there is none; LARGEST: the largest id."""
    ids = np.asarray(row)
    found = ids == (ids.max(initial=0) if end == LARGEST else end)
    return row[: int(found.argmax()) + 1] if found.any() else row


@dataclass(frozen=True)
class Batch:
    """B sequences of T token ids together. ids: (T,). lengths: (B,).

    skips: (B,) how many tokens of each, the first ones, are not pooled.
    """

    ids: Integers
    lengths: Integers
    skips: Integers

    @classmethod
    def of(cls, rows: Rows, skips: Sequence[int] = ()) -> "Batch":
        """Lay sequences one after another. skips: of each; by default none."""
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        ids = np.concatenate(rows, dtype=np.int64, casting="unsafe")
        return cls(ids, lengths, np.array(skips or [0] * len(rows), dtype=np.int64))

    @property
    def positions(self) -> Integers:
        """The place of each token in its sequence: (T,)."""
        starts = self.lengths.cumsum() - self.lengths
        return np.arange(len(self.ids)) - starts.repeat(self.lengths)

    def check(self, vocabulary: int, longest: int, shortest: int = 1) -> None:
        """Raises ValueError for what no table holds: it would be read from beyond its end."""
        if self.lengths.min() < shortest or self.lengths.max() > longest:
            raise ValueError(f"a sequence has {shortest} to {longest} tokens")
        # Without its sign a negative one is beyond every table, too.
        if self.ids.view(np.uint64).max(initial=0) >= vocabulary:
            raise ValueError(f"token ids are 0 to {vocabulary - 1}")
