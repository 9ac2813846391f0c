"""The input of an encoder: sequences of token ids, concatenated without padding.

For a model of pairs of texts, an id plus the size of the vocabulary is the same token in the second
segment. So a sequence of ids is all that the encoder needs to know of a pair.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from torch import Tensor

from embedwell_models.config.checkpoint_spec import LARGEST

Row = Sequence[int] | npt.NDArray[np.integer]
Rows = Sequence[Row]
N = TypeVar("N", bound=np.generic)
Integers = npt.NDArray[np.int64]


def truncate_after(row: Row, end: int) -> Row:
    """Cut a row after the first id `end`, if it has one; LARGEST stands for its largest id."""
    ids = np.asarray(row)
    matches = ids == (ids.max(initial=0) if end == LARGEST else end)
    return row[: int(matches.argmax()) + 1] if matches.any() else row


@dataclass(frozen=True)
class Batch:
    """B sequences with T token ids in total.

    ids: (T,). lengths: (B,). prompt_token_counts: (B,) how many of each sequence's first tokens are
    left out of the pooling. key_counts: (B,) how many of each sequence's tokens are attended to,
    its first ones; None for all. token_vectors: (T, D) on the model's device, in place of those
    that a table has for the ids: of the patches of images, say.
    """

    ids: Integers
    lengths: Integers
    prompt_token_counts: Integers
    key_counts: Integers | None = None
    token_vectors: Tensor | None = None

    @classmethod
    def of(cls, rows: Rows, prompt_token_counts: Sequence[int] = ()) -> "Batch":
        """Concatenate sequences. prompt_token_counts: one for each of them; by default zeros."""
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        ids = np.concatenate(rows, dtype=np.int64, casting="unsafe")
        return cls(ids, lengths, np.array(prompt_token_counts or [0] * len(rows), dtype=np.int64))

    @classmethod
    def of_vectors(cls, vectors: Tensor) -> "Batch":
        """Concatenate B sequences of equal length, given as token vectors: (B, length, D)."""
        count, length, _ = vectors.shape
        lengths = np.full(count, length, dtype=np.int64)
        ids = np.arange(count * length, dtype=np.int64)
        patches = vectors.flatten(0, 1).contiguous()
        return cls(ids, lengths, np.zeros_like(lengths), token_vectors=patches)

    @property
    def positions(self) -> Integers:
        """The position of each token in its sequence: (T,)."""
        starts = self.lengths.cumsum() - self.lengths
        return np.arange(len(self.ids)) - starts.repeat(self.lengths)

    def without_attention_to_trailing(self, id: int) -> "Batch":
        """Return the batch with no attention to any of the ids `id` that end each sequence.

        A sequence of no other ids stays as it is.
        """
        others = self.positions + 1
        others[self.ids == id] = 0
        starts = self.lengths.cumsum() - self.lengths
        counts = np.maximum.reduceat(others, starts)
        return replace(self, key_counts=np.where(counts == 0, self.lengths, counts))

    def split(self, rows: npt.NDArray[N]) -> list[npt.NDArray[N]]:
        """Split rows of tokens (T, ...) into those of each sequence."""
        return np.split(rows, self.lengths.cumsum()[:-1])

    def check_bounds(self, vocab_size: int, max_tokens: int, min_tokens: int = 1) -> None:
        """Raise ValueError for an id or length that the tables lack: kernels check no bounds."""
        if self.lengths.min() < min_tokens or self.lengths.max() > max_tokens:
            raise ValueError(f"a sequence has {min_tokens} to {max_tokens} tokens")
        # As an unsigned number, a negative id is out of range as well.
        if self.ids.view(np.uint64).max(initial=0) >= vocab_size:
            raise ValueError(f"token ids are 0 to {vocab_size - 1}")
