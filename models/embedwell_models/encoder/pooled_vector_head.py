"""The modules after the pooling of a sentence model, in float32."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_models.checkpoint import weights
from embedwell_models.errors import ModelError
from embedwell_models.model_files.vector_modules import (
    RESIDUAL,
    Dense,
    LayerNorm,
    LogitScore,
    Module,
    TanhInt8,
    Truncate,
    WithoutWeights,
)
from embedwell_models.torch_backend.tensors import to_tensors
from embedwell_models.vectors import Floats

Transform = Callable[[Tensor], Tensor]
"""A function of one vector: (in,) -> (out,)."""


class PooledVectorHead:
    """Modules that are applied to pooled vectors, one after another."""

    def __init__(self, folder: Path, modules: Sequence[Module]) -> None:
        """Load the modules; raises ModelError for weights that are missing or of a wrong shape."""
        self._transforms = [_load(folder, module) for module in modules]

    def without_last(self) -> "PooledVectorHead":
        """Return the head without its last module."""
        head = copy(self)
        head._transforms = self._transforms[:-1]
        return head

    def __call__(self, vectors: Floats) -> Floats:
        """Apply the modules to each vector: (B, pooled) -> (B, dim)."""
        if not self._transforms:
            return vectors
        # One vector at a time: a product for several vectors may sum in an order that depends on
        # their number.
        return np.stack([self._apply(torch.tensor(vector)).numpy() for vector in vectors])

    @torch.inference_mode()
    def _apply(self, vector: Tensor) -> Tensor:
        for transform in self._transforms:
            vector = transform(vector)
        return vector


def _load(folder: Path, module: Module) -> Transform:
    if isinstance(module, WithoutWeights):
        return _without_weights(module)
    if isinstance(module, LogitScore):
        row = _score_row(folder / module.path, module)
        return lambda vector: F.linear(vector, row)
    tensors = load_tensors(folder, module)
    residual = tensors.pop(RESIDUAL, None)
    weight, *biases = tensors.values()
    bias = biases[0] if biases else None
    if isinstance(module, LayerNorm):
        shape, eps = (module.inputs,), module.eps
        return lambda vector: F.layer_norm(vector, shape, weight, bias, eps)
    activation = getattr(torch.nn, module.activation)()
    if not module.residual:
        return lambda vector: activation(F.linear(vector, weight, bias))
    return lambda vector: (
        activation(F.linear(vector, weight, bias))
        + (vector if residual is None else F.linear(vector, residual))
    )


def _without_weights(module: WithoutWeights) -> Transform:
    if isinstance(module, Truncate):
        return lambda vector: vector[: module.outputs]
    if isinstance(module, TanhInt8):
        return lambda vector: torch.round(127 * torch.tanh(vector))
    return lambda vector: F.normalize(vector, dim=-1)


def load_tensors(folder: Path, module: Dense | LayerNorm) -> dict[str, Tensor]:
    """Load the tensors of one module of a model's folder, in the order of the module's shapes.

    Raises ModelError for weights that are missing or of a wrong shape.
    """
    folder, shapes, has_own_file = folder / module.path, module.shapes, module.has_own_file
    arrays = {
        name: weights.to_finite_float32(folder, name, tensor)
        for name, tensor in weights.iterate_tensors(folder)
        if has_own_file or name in shapes
    }
    loaded = {name: array.shape for name, array in arrays.items()}
    if loaded != shapes:
        raise ModelError(f"{folder}: the checkpoint has {loaded}; config.json requires {shapes}")
    return to_tensors({name: arrays[name] for name in shapes})


def _score_row(folder: Path, module: LogitScore) -> Tensor:
    """Read the rows of the output table whose products give the score: (1, inputs)."""
    tables = {
        name: table for name, table in weights.iterate_tensors(folder) if name in module.tensors
    }
    if not tables:
        raise ModelError(f"{folder}: the checkpoint lacks {module.tensors[0]}")
    name = next(name for name in module.tensors if name in tables)
    table = tables[name]
    shape = table.array.shape
    if shape != (module.vocabulary, module.inputs):
        raise ModelError(
            f"{folder}: {name} has the shape {shape}; config.json requires "
            f"{module.vocabulary, module.inputs}"
        )
    ids = [id for id in (module.true_id, module.false_id) if id is not None]
    rows = weights.to_finite_float32(folder, name, replace(table, array=table.array[ids]))
    return torch.from_numpy(rows[:1] - rows[1:] if len(ids) > 1 else rows)
