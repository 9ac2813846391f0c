"""Functions of the modules that follow an encoder, in float32.

They are applied to rows: one for each text, or one for each token. A row of the result has the
same bytes in every batch.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from operator import add, mul
from pathlib import Path
from typing import TypeVar

import numpy as np

from embedwell_models.checkpoint import safetensors_files, weights
from embedwell_models.encoder.encoder import LinearFactory, WeightAndBias, layer_norm
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
from embedwell_models.vectors import Floats, normalize

Rows = TypeVar("Rows")  # an array, or a tensor of a backend

Transform = Callable[[Floats], Floats]
"""Function of contiguous rows: (B, in) -> (B, out)."""

# Names of the activations that are part of a linear layer.
_ACTIVATIONS = {
    **{"Identity": "none", "Tanh": "tanh", "ReLU": "relu", "SiLU": "silu"},
    **{"GELU": "gelu", "GELUTanh": "gelu_tanh"},
}


class VectorHead:
    """Modules that are applied to rows, one after another.

    A row is the pooled vector of a text, or the state of a token in a multi-vector model.
    """

    def __init__(self, folder: Path, modules: Sequence[Module], linear: LinearFactory) -> None:
        """linear: builds layers with independent, bit-identical rows.

        Raises ModelError for weights that are missing or of a wrong shape.
        """
        self._transforms = [load_transform(folder, module, linear) for module in modules]

    def __call__(self, rows: Floats) -> Floats:
        """Apply the modules to each row: (B, pooled) or (T, D) -> (B or T, dim)."""
        with np.errstate(all="ignore"):  # a row that is not finite stays so, without a warning
            for transform in self._transforms:
                rows = transform(rows)
        return rows

    def without_last(self) -> "VectorHead":
        """Return the head without its last module."""
        head = copy(self)
        head._transforms = self._transforms[:-1]
        return head


def load_transform(folder: Path, module: Module, linear: LinearFactory) -> Transform:
    """Build the function of one module of a model's folder.

    Raises ModelError for weights that are missing or of a wrong shape.
    """
    if isinstance(module, WithoutWeights):
        return _without_weights(module)
    if isinstance(module, LogitScore):
        return linear(load_score_row(folder, module), np.zeros(1, np.float32))
    if isinstance(module, LayerNorm):
        weight, bias = load_norm(folder, module)
        return lambda rows: layer_norm(rows, weight, bias, module.eps)
    return load_dense(folder, module, linear, lambda name: _OTHER_ACTIVATIONS[name])


def _without_weights(module: WithoutWeights) -> Transform:
    if isinstance(module, Truncate):
        return lambda rows: np.ascontiguousarray(rows[:, : module.outputs])
    if isinstance(module, TanhInt8):
        return lambda rows: np.rint(127 * np.tanh(rows))
    return normalize


def load_norm(folder: Path, module: LayerNorm) -> WeightAndBias:
    """Read the weight and the bias of a norm, zeros if it has none: (D,) each.

    Raises ModelError for weights that are missing or of a wrong shape.
    """
    weight, *biases = load_arrays(folder, module).values()
    return weight, biases[0] if biases else np.zeros_like(weight)


def load_dense(
    folder: Path,
    module: Dense,
    linear: Callable[[Floats, Floats, str], Callable[[Rows], Rows]],
    activation: Callable[[str], Callable[[Rows], Rows]],
) -> Callable[[Rows], Rows]:
    """Build the function of a Dense, on arrays or on tensors.

    linear: builds a layer with an activation. activation: builds one that no layer includes.
    Raises ModelError for weights that are missing or of a wrong shape.
    """
    arrays = load_arrays(folder, module)
    residual = arrays.pop(RESIDUAL, None)
    weight, *biases = (array / np.float32(module.divisor) for array in arrays.values())
    zeros, fused = np.zeros(module.outputs, np.float32), _ACTIVATIONS.get(module.activation)
    layer = linear(weight, biases[0] if biases else zeros, fused or "none")
    activate = _identity if fused else activation(module.activation)
    if not module.residual:
        scale = _identity if module.factor == 1 else partial(mul, module.factor)
        return lambda rows: scale(activate(layer(rows)))
    shortcut = _identity if residual is None else linear(residual, zeros, "none")
    return lambda rows: add(activate(layer(rows)), shortcut(rows))


def sigmoid(x: Floats) -> Floats:
    """Return 1 / (1 + e^-x); the power never overflows: (B, D) -> (B, D)."""
    small = np.exp(-np.abs(x))
    result: Floats = np.where(x < 0, small, np.float32(1)) / (1 + small)
    return result


def _leaky_relu(x: Floats) -> Floats:
    return np.where(x < 0, np.float32(0.01) * x, x)


def _elu(x: Floats) -> Floats:
    result: Floats = np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
    return result


def _softplus(x: Floats) -> Floats:
    # torch's, which is linear from 20 on.
    return np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 20))))


def _mish(x: Floats) -> Floats:
    result: Floats = x * np.tanh(_softplus(x))
    return result


def _hard_tanh(x: Floats) -> Floats:
    return np.clip(x, np.float32(-1), np.float32(1))


_OTHER_ACTIVATIONS: Mapping[str, Transform] = {
    "Sigmoid": sigmoid,
    "LeakyReLU": _leaky_relu,
    "ELU": _elu,
    "Softplus": _softplus,
    "Mish": _mish,
    "Hardtanh": _hard_tanh,
}
"""Activations that follow a linear layer, with torch's defaults."""


def _identity(x: Rows) -> Rows:
    return x


def load_arrays(folder: Path, module: Dense | LayerNorm) -> dict[str, Floats]:
    """Read the arrays of one module of a model's folder, in the order of the module's shapes.

    Raises ModelError for weights that are missing or of a wrong shape.
    """
    folder, shapes, has_own_file = folder / module.path, module.shapes, module.has_own_file
    tensors = dict(weights.iterate_tensors(folder))
    # An encoder alone, to which an adapter adds the head, lacks the first part of the names.
    names = {name if name in tensors else name.partition(".")[2]: name for name in shapes}
    arrays = {
        names.get(name, name): safetensors_files.to_finite_float32(folder, name, tensor)
        for name, tensor in tensors.items()
        if has_own_file or name in names
    }
    loaded = {name: array.shape for name, array in arrays.items()}
    if loaded != shapes:
        raise ModelError(f"{folder}: the checkpoint has {loaded}; config.json requires {shapes}")
    return {name: arrays[name] for name in shapes}


def load_score_row(folder: Path, module: LogitScore) -> Floats:
    """Read the row whose product with a state is the score: (1, inputs).

    Raises ModelError for a table that is missing or of a wrong shape.
    """
    folder /= module.path
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
    chosen = replace(table, array=table.array[np.array(ids)])
    rows = safetensors_files.to_finite_float32(folder, name, chosen)
    return rows[:1] - rows[1:] if len(ids) > 1 else rows
