"""Packed texts of various lengths, with rows of no text before and after them."""

import torch
from torch import Tensor

LENGTHS = [
    [5],
    [1],
    [0],
    [33, 0, 1, 17],
    [0, 32, 65, 0],
    [1 + 7 * index % 5 for index in range(9)],
]
"""Odd and round lengths, empty texts, one text, and nine."""

BEFORE = 3  # rows of no text before the first; as many follow the last


def ends_of(lengths: list[int]) -> Tensor:
    """The first row of each text, and the row after the last: (B + 1,)."""
    return torch.tensor([0, *lengths]).cumsum(0).to(torch.int32) + BEFORE


def rows_of(lengths: list[int], *shape: int, seed: int = 0) -> Tensor:
    """Random rows (T, *shape); those of no text are NaN."""
    rows = torch.full((sum(lengths) + 2 * BEFORE, *shape), float("nan"))
    noise = torch.randn(sum(lengths), *shape, generator=torch.Generator().manual_seed(seed))
    rows[BEFORE : BEFORE + sum(lengths)] = noise
    return rows


def split(rows: Tensor, lengths: list[int]) -> list[Tensor]:
    """The rows of each text."""
    return list(torch.split(rows[BEFORE : BEFORE + sum(lengths)], lengths))
