"""The input of an encoder: sequences of token ids, concatenated without padding.

In a model of pairs, an id plus the size of the vocabulary means the same token in the second
segment. A sequence of ids therefore describes a pair completely.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import TypeVar, overload

import numpy as np
import numpy.typing as npt

from embedwell_models.config.model_spec import LARGEST
from embedwell_models.vectors import Floats, TokenIds

N = TypeVar("N", bound=np.generic)
IdRows = Sequence[TokenIds]
Integers = npt.NDArray[np.int64]


class FlatRows(Sequence[npt.NDArray[np.int32]]):
    """B sequences of token ids that are consecutive parts of one array.

    ids: (T,). lengths: of each sequence.
    """

    __slots__ = ("_ends", "ids", "lengths")

    def __init__(self, ids: npt.NDArray[np.int32], lengths: list[int]) -> None:
        self.ids, self.lengths = ids, lengths
        self._ends: list[int] | None = None

    @classmethod
    def of(cls, rows: Sequence[npt.NDArray[np.int32]]) -> "FlatRows":
        """Concatenate sequences."""
        return cls(rows[0] if len(rows) == 1 else np.concatenate(rows), [*map(len, rows)])

    @classmethod
    def join(cls, parts: Sequence["FlatRows"]) -> "FlatRows":
        """Concatenate groups of sequences."""
        if len(parts) == 1:
            return parts[0]
        lengths = list(chain.from_iterable([part.lengths for part in parts]))
        return cls(np.concatenate([part.ids for part in parts]), lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    @overload
    def __getitem__(self, index: int) -> npt.NDArray[np.int32]: ...
    @overload
    def __getitem__(self, index: slice) -> "FlatRows": ...
    def __getitem__(self, index: int | slice) -> "npt.NDArray[np.int32] | FlatRows":
        if isinstance(index, slice):
            return self.part(*index.indices(len(self.lengths))[:2])
        index = range(len(self.lengths))[index]
        return self.part(index, index + 1).ids

    def part(self, start: int, stop: int) -> "FlatRows":
        """Return the sequences from `start` to `stop` - 1."""
        if stop - start == len(self.lengths):
            return self
        if self._ends is None:
            self._ends = [0, *accumulate(self.lengths)]
        ids = self.ids[self._ends[start] : self._ends[stop]]
        return FlatRows(ids, self.lengths[start:stop])


def truncate_after(row: TokenIds, end: int) -> TokenIds:
    """Cut a row after its first id `end`, if there is one; LARGEST means the row's largest id."""
    ids = np.asarray(row)
    matches = ids == (ids.max(initial=0) if end == LARGEST else end)
    return row[: int(matches.argmax()) + 1] if matches.any() else row


def without_trailing(row: TokenIds, id: int) -> TokenIds:
    """Leave out the ids at the end of a row that are this one, but not the first id."""
    others = np.flatnonzero(np.asarray(row) != id)
    return row[: int(others[-1]) + 1 if len(others) else 1]


@dataclass(frozen=True)
class Batch:
    """B sequences with T token ids in total.

    ids: (T,). lengths: (B,). prompt_token_counts: (B,) number of first tokens that the pooling
    leaves out. key_counts: (B,) number of first tokens that are attended to; None for all tokens.
    token_vectors: (T, D), replace the table's vectors for the ids, such as the patches of images.
    """

    ids: Integers
    lengths: Integers
    prompt_token_counts: Integers
    key_counts: Integers | None = None
    token_vectors: Floats | None = None

    @classmethod
    def of(cls, rows: IdRows, prompt_token_counts: Sequence[int] = ()) -> "Batch":
        """Concatenate sequences. prompt_token_counts: one for each sequence; by default zeros.

        Raises TypeError for ids that are not whole numbers.
        """
        if isinstance(rows, FlatRows):
            lengths, ids = np.array(rows.lengths, dtype=np.int64), rows.ids.astype(np.int64)
        else:
            lengths = np.array([len(row) for row in rows], dtype=np.int64)
            ids = _concatenate(rows)
        counts = np.array(prompt_token_counts or [0] * len(rows), dtype=np.int64)
        return cls(ids, lengths, counts)

    @classmethod
    def of_vectors(cls, vectors: Sequence[Floats]) -> "Batch":
        """Concatenate B sequences, given as token vectors (length, D)."""
        lengths = np.array([len(each) for each in vectors], dtype=np.int64)
        ids = np.arange(lengths.sum(), dtype=np.int64)
        rows = np.concatenate(vectors)
        return cls(ids, lengths, np.zeros_like(lengths), token_vectors=rows)

    @property
    def positions(self) -> Integers:
        """Position of each token in its sequence: (T,)."""
        starts = self.lengths.cumsum() - self.lengths
        return np.arange(len(self.ids)) - starts.repeat(self.lengths)

    def without_attention_to_trailing(self, id: int) -> "Batch":
        """Return the batch without attention to the ids `id` at the end of each sequence.

        A sequence that contains only this id stays as it is. So does a batch without the id there.
        """
        others = self.positions + 1
        others[self.ids == id] = 0
        starts = self.lengths.cumsum() - self.lengths
        counts = np.maximum.reduceat(others, starts)
        counts = np.where(counts == 0, self.lengths, counts)
        return self if np.array_equal(counts, self.lengths) else replace(self, key_counts=counts)

    def parts(self, size: int) -> Iterator["Batch"]:
        """Split the batch into batches of at most `size` sequences."""
        ends = [0, *self.lengths.cumsum().tolist()]
        for first in range(0, len(self.lengths), size):
            texts = slice(first, first + size)
            rows = slice(ends[first], ends[min(first + size, len(self.lengths))])
            yield Batch(
                *(self.ids[rows], self.lengths[texts], self.prompt_token_counts[texts]),
                key_counts=None if self.key_counts is None else self.key_counts[texts],
                token_vectors=None if self.token_vectors is None else self.token_vectors[rows],
            )

    def split(self, rows: npt.NDArray[N]) -> list[npt.NDArray[N]]:
        """Split rows of tokens (T, ...) by sequence."""
        return np.split(rows, self.lengths.cumsum()[:-1])

    def check_bounds(self, vocab_size: int, max_tokens: int, min_tokens: int = 1) -> None:
        """Raise ValueError for an id or length outside the tables; kernels do not check bounds."""
        if self.lengths.min() < min_tokens or self.lengths.max() > max_tokens:
            raise ValueError(f"a sequence must have {min_tokens} to {max_tokens} tokens")
        # As unsigned numbers, negative ids are out of range as well.
        if self.ids.view(np.uint64).max(initial=0) >= vocab_size:
            raise ValueError(f"token ids must be 0 to {vocab_size - 1}")


def _concatenate(rows: IdRows) -> Integers:
    try:
        return np.concatenate(rows, dtype=np.int64, casting="same_kind")
    except TypeError:  # also for an empty list, which numpy takes for floating-point numbers
        if any(len(row) and np.asarray(row).dtype.kind not in "iu" for row in rows):
            raise TypeError("token ids must be whole numbers") from None
        return np.concatenate(rows, dtype=np.int64, casting="unsafe")


def batches_of_similar_length(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield indices of texts of similar length, with at most `budget` tokens or a single text."""
    batch: list[int] = []
    tokens = 0
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and tokens + lengths[index] > budget:
            yield batch
            batch, tokens = [], 0
        batch.append(index)
        tokens += lengths[index]
    if batch:
        yield batch
