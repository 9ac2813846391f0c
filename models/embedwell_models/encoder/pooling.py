"""Pooling of the hidden states of each text to one vector, on a CPU.

B texts, N pooled tokens of a text, T tokens, D hidden size.
"""

from collections.abc import Callable, Sequence

import numpy as np

from embedwell_models.encoder.batch import Batch, Integers
from embedwell_models.vectors import Floats

Pooling = Callable[[Floats, int], Floats]
"""Function that pools the states of one text: (N, D) -> (D,).

Its second argument is the number of tokens before these that are not pooled.
"""


def cls(states: Floats, before: int) -> Floats:
    """Return the first token's state: (N, D) -> (D,)."""
    first: Floats = states[0]
    return first


def last(states: Floats, before: int) -> Floats:
    """Return the last token's state: (N, D) -> (D,)."""
    final: Floats = states[-1]
    return final


def mean(states: Floats, before: int) -> Floats:
    """Return the average over tokens: (N, D) -> (D,)."""
    average: Floats = states.sum(axis=0) / np.float32(len(states))
    return average


def maximum(states: Floats, before: int) -> Floats:
    """Return the largest value in each dimension: (N, D) -> (D,)."""
    largest: Floats = states.max(axis=0)
    return largest


def mean_sqrt(states: Floats, before: int) -> Floats:
    """Return the sum over tokens / the square root of their number: (N, D) -> (D,)."""
    scaled: Floats = mean(states, before) * np.sqrt(np.float32(len(states)))
    return scaled


def weighted_mean(states: Floats, before: int) -> Floats:
    """Return the average weighted by position, from 1 (arXiv 2202.08904): (N, D) -> (D,)."""
    positions = np.arange(before + 1, before + 1 + len(states))
    products = states * positions[:, None].astype(np.float32)
    weighted: Floats = products.sum(axis=0) / np.float32(positions.sum())
    return weighted


POOLINGS: dict[str, Pooling] = {  # the order of Pooling in kernels/pool.h
    "cls": cls,
    "max": maximum,
    "mean": mean,
    "mean_sqrt_len_tokens": mean_sqrt,
    "weightedmean": weighted_mean,
    "lasttoken": last,
}


def pool_batch(states: Floats, batch: Batch, modes: Sequence[str]) -> Floats:
    """Concatenate several poolings of each text: (T, D) -> (B, D * modes).

    The first `batch.prompt_token_counts` tokens of each text are left out.
    """
    return pool_rows(states, batch.lengths, modes, batch.prompt_token_counts)


def pool_rows(
    states: Floats, lengths: Integers, modes: Sequence[str], prompt_counts: Integers | None = None
) -> Floats:
    """Concatenate several poolings of rows: (rows, D) -> (B, D * modes).

    lengths: (B,) number of rows of each text. prompt_counts: (B,) number of first rows that are
    left out; None for none. A text without remaining rows has the zero vector.
    """
    pooled = np.zeros((len(lengths), len(modes), states.shape[1]), dtype=np.float32)
    left_out = [0] * len(lengths) if prompt_counts is None else prompt_counts.tolist()
    stops = lengths.cumsum().tolist()
    starts = [0, *stops[:-1]]
    for index, (start, before, stop) in enumerate(zip(starts, left_out, stops, strict=True)):
        if start + before < stop:
            rows = states[start + before : stop]
            pooled[index] = [POOLINGS[mode](rows, before) for mode in modes]
    return pooled.reshape(len(pooled), -1)
