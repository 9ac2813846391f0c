"""Modules that a multi-vector model applies to each token's state, in float32."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from embedwell_models.encoder.pooled_vector_head import load_tensors
from embedwell_models.errors import ModelError
from embedwell_models.model_files.vector_modules import RESIDUAL, Dense, Module, Normalize
from embedwell_models.torch_backend.linear import LinearFactory
from embedwell_models.vectors import Floats, normalize

_ACTIVATIONS = {"Identity": "none", "Tanh": "tanh", "ReLU": "relu", "GELU": "gelu", "SiLU": "silu"}
Transform = Callable[[Tensor], Tensor]
"""Function of rows: (T, in) -> (T, out)."""


class TokenVectorHead:
    """Modules after the encoder, applied one after another to rows of states."""

    def __init__(self, folder: Path, modules: Sequence[Module], linear: LinearFactory) -> None:
        """linear: builds layers with independent, bit-identical rows.

        Raises ModelError for weights that are missing or of a wrong shape.
        """
        self._transforms = [_load(folder, module, linear) for module in modules]

    @torch.inference_mode()
    def __call__(self, states: Floats) -> Floats:
        """Apply the modules to each row: (T, D) -> (T, dim)."""
        rows = torch.from_numpy(states)
        for transform in self._transforms:
            rows = transform(rows)
        vectors: Floats = rows.numpy()
        return vectors


def _load(folder: Path, module: Module, linear: LinearFactory) -> Transform:
    if isinstance(module, Normalize):
        return lambda rows: torch.from_numpy(normalize(rows.numpy()))
    if not isinstance(module, Dense) or module.activation not in _ACTIVATIONS:
        raise ModelError(
            f"{folder}: a multi-vector model's Dense has one of the "
            f"activations {sorted(_ACTIVATIONS)}"
        )
    tensors = load_tensors(folder, module)
    zeros = torch.zeros(module.outputs)
    residual = tensors.pop(RESIDUAL, None)
    weight, *biases = tensors.values()
    bias = biases[0] if biases else zeros
    layer = linear(weight, bias, _ACTIVATIONS[module.activation])
    if not module.residual:
        return layer
    other = None if residual is None else linear(residual, zeros)
    return lambda rows: layer(rows) + (rows if other is None else other(rows))
