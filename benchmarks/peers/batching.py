"""Batches for an engine that pads: texts sorted by length, within a budget of tokens."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


def batches(lengths: Sequence[int], budget: int, *, padded: bool) -> list[list[int]]:
    """Return batches of indices by length, within the budget of tokens, with at least one text.

    padded: whether padding to the longest row counts.
    """
    parts: list[list[int]] = []
    total = budget + 1  # the first row then starts a batch
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        length = lengths[index]
        total = length * (len(parts[-1]) + 1) if padded and parts else total + length
        if not parts or total > budget:
            parts.append([])
            total = length
        parts[-1].append(index)
    return parts


def pad(rows: Sequence[Ids]) -> tuple[Integers, Integers]:
    """Return token ids and attention mask of a batch: B rows -> two arrays (B, longest)."""
    lengths = np.array([len(row) for row in rows])
    holds = np.arange(lengths.max()) < lengths[:, None]
    ids = np.zeros(holds.shape, dtype=np.int64)
    ids[holds] = np.concatenate(rows)
    return ids, holds.astype(np.int64)
