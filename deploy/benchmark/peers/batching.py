"""How an engine that pads its batches is best fed: sorted by length, so many tokens at a time."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


def batches(lengths: Sequence[int], budget: int, *, padded: bool) -> list[list[int]]:
    """Indices by length, as many in a batch as the budget of tokens allows, but at least one.

    padded: count what the batch takes once each row is as long as the longest.
    """
    parts: list[list[int]] = []
    total = budget + 1  # so that the first row opens a batch
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        length = lengths[index]
        total = length * (len(parts[-1]) + 1) if padded and parts else total + length
        if not parts or total > budget:
            parts.append([])
            total = length
        parts[-1].append(index)
    return parts


def pad(rows: Sequence[Ids]) -> tuple[Integers, Integers]:
    """Token ids and attention mask of a batch: B rows -> twice (B, longest)."""
    lengths = np.array([len(row) for row in rows])
    holds = np.arange(lengths.max()) < lengths[:, None]
    ids = np.zeros(holds.shape, dtype=np.int64)
    ids[holds] = np.concatenate(rows)
    return ids, holds.astype(np.int64)
