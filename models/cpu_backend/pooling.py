"""The poolings of the kernels by number, and pooling on torch of texts that they cannot pool."""

from collections.abc import Sequence

import torch

from models.encoder.batch import Batch
from models.encoder.pooling import pool
from models.encoder.sequence_layout import SequenceLayout
from models.vectors import Floats

KERNEL_POOLINGS = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
"""The pooling modes of the kernels, in the order of Pooling in kernels/pool.h."""


def pooling_index(mode: str) -> int:
    """Return the kernels' number of a pooling mode; raises ValueError for an unknown one."""
    if mode not in KERNEL_POOLINGS:
        raise ValueError(f"the kernels have no pooling mode {mode!r}; they have {KERNEL_POOLINGS}")
    return KERNEL_POOLINGS.index(mode)


def pool_on_torch(states: Floats, batch: Batch, poolings: Sequence[str]) -> Floats:
    """Pool hidden states (T, D) without the tokens of prompts: (B, poolings * D)."""
    layout = SequenceLayout(batch.lengths.tolist(), torch.device("cpu"))
    prompt_token_counts = torch.from_numpy(batch.prompt_token_counts)
    vectors: Floats = pool(torch.from_numpy(states), layout, poolings, prompt_token_counts).numpy()
    return vectors
