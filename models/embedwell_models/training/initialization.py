"""Random initialization of an encoder before training."""

import math
from collections.abc import Callable, Mapping
from typing import Literal

from torch import Tensor, nn

Initialization = Literal["normal", "scaled", "uniform", "xavier", "he"]

INITIALIZATIONS: Mapping[Initialization, Callable[[Tensor], Tensor]] = {
    "normal": lambda weight: nn.init.normal_(weight, std=0.02),
    "scaled": lambda weight: nn.init.normal_(weight, std=1 / math.sqrt(weight.shape[-1])),
    "uniform": lambda weight: nn.init.uniform_(weight, -0.1, 0.1),
    "xavier": nn.init.xavier_normal_,
    "he": nn.init.kaiming_normal_,
}
"""Functions that fill a matrix (outputs, inputs) or a table (rows, D) with random numbers.

normal: N(0, 0.02²), as BERT. scaled: N(0, 1/D). uniform: from -0.1 to 0.1. xavier: N(0, 2 /
(inputs + outputs)), Glorot and Bengio 2010. he: N(0, 2 / inputs), He et al. 2015.
"""


def initialize(model: nn.Module, initialization: Initialization) -> None:
    """Draw matrices and tables anew; biases become 0, and norms become the identity."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            INITIALIZATIONS[initialization](module.weight.data)
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            module.weight.data[module.padding_idx].zero_()
        if isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
        if isinstance(module, nn.Linear | nn.LayerNorm) and module.bias is not None:
            nn.init.zeros_(module.bias)
