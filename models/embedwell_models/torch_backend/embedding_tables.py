"""Tables whose rows add up to the input of an encoder's first layer, for one kernel of a GPU.

T tokens, V vocabulary, P positions, S segments, E embedding size.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from embedwell_models.torch_backend.norm import Norm


@dataclass(frozen=True)
class EmbeddingTables:
    """Tables of tokens, segments and positions, and the norm of the sum.

    tokens: (V, E), in 16 bits if the checkpoint has them so. scale: factor of their rows. segments:
    (S, E); (1, 1) for none. vocab_size: least id of the second segment, whose ids continue those of
    the first; 0 if all ids are of the first. positions: (P, E); None for none. padding: id of a
    token that does not count as a position and has the first row; -1 for none.
    """

    tokens: Tensor
    scale: float
    segments: Tensor
    vocab_size: int
    positions: Tensor | None
    padding: int
    norm: Norm


EmbedRows = Callable[[EmbeddingTables, Tensor, Tensor, torch.dtype], Tensor]
"""Function that embeds ids (T,) at positions (T,) in a precision: (T, E)."""
