"""What a sentence model does to a pooled vector: products, norms, in float32."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from models.checkpoint import weights
from models.errors import ModelError
from models.sentence_transformers.modules import Dense, LayerNorm, Module
from models.vectors import Floats

Step = Callable[[Tensor], Tensor]
"""A vector (in,) -> (out,)."""


class Head:
    """The modules after the pooling, one after another."""

    def __init__(self, folder: Path, modules: Sequence[Module]) -> None:
        """Raises ModelError for weights that are missing or not of the shape of the config."""
        self._steps = [_step(folder, module) for module in modules]

    def __call__(self, vectors: Floats) -> Floats:
        """(B, pooled) -> (B, dim)."""
        if not self._steps:
            return vectors
        # Each vector by itself: a product of several may sum in an order that depends on them.
        return np.stack([self._apply(torch.tensor(vector)).numpy() for vector in vectors])

    @torch.inference_mode()
    def _apply(self, vector: Tensor) -> Tensor:
        for step in self._steps:
            vector = step(vector)
        return vector


def _step(folder: Path, module: Module) -> Step:
    if isinstance(module, Dense):
        return _dense(folder, module)
    if isinstance(module, LayerNorm):
        shape = (module.inputs,)
        weight, bias = _read(folder / module.path, {"norm.weight": shape, "norm.bias": shape})
        return lambda vector: F.layer_norm(vector, shape, weight, bias)
    return lambda vector: F.normalize(vector, dim=-1)


def _dense(folder: Path, module: Dense) -> Step:
    shapes: dict[str, tuple[int, ...]] = {module.tensor: (module.outputs, module.inputs)}
    if module.bias:
        shapes["linear.bias"] = (module.outputs,)
    weight, *bias = _read(folder / module.path, shapes, module.alone)
    added = bias[0] if bias else None
    activation = getattr(torch.nn, module.activation)()
    return lambda vector: activation(F.linear(vector, weight, added))


def _read(folder: Path, shapes: dict[str, tuple[int, ...]], alone: bool = True) -> list[Tensor]:
    # alone: whether the file has no others.
    read = ((name, t) for name, t in weights.tensors(folder) if alone or name in shapes)
    found = {name: weights.float32(folder, name, tensor) for name, tensor in read}
    shown = {name: tuple(tensor.shape) for name, tensor in found.items()}
    if shown != shapes:
        raise ModelError(f"{folder}: the checkpoint has {shown}; by config.json it is {shapes}")
    return [found[name] for name in shapes]
