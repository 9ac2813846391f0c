"""Heads over the states of tokens, on the device that has the states.

B sequences, T tokens, D hidden size.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import reduce
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import Encoder, WeightAndBias
from embedwell_models.encoder.encoders_with_heads import EncoderWithHead, LayerMixEncoder
from embedwell_models.encoder.vector_modules import load_dense, load_norm, load_score_row
from embedwell_models.model_files.vector_modules import LayerNorm as ModuleNorm
from embedwell_models.model_files.vector_modules import (
    LogitScore,
    Module,
    Normalize,
    TanhInt8,
    Truncate,
)
from embedwell_models.torch_backend.cuda_graphs import Forward
from embedwell_models.torch_backend.encoder import RowFunction, TorchEncoder
from embedwell_models.torch_backend.linear_choice import torch_linear_factory
from embedwell_models.torch_backend.norm import LayerNorm, identity
from embedwell_models.torch_backend.pooling import pool
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.tensors import pair_to_tensors
from embedwell_models.vectors import Floats


class DeviceStateFunctionEncoder(EncoderWithHead):
    """Encoder whose states stay on the device: the host receives only the pooled vectors."""

    def __init__(
        self, encoder: TorchEncoder, function: Callable[[Tensor], Tensor], num_layers: int
    ) -> None:
        """function: of the last states of tokens, (T, D) -> (T, D) in float32.

        num_layers: the number of layers of the inner encoder.
        """
        super().__init__(encoder, num_layers)
        self.device, self._states, self._function = encoder.device, encoder, function

    def states(self, batch: Batch, num_layers: int) -> Floats:
        """Return the states after `num_layers` layers; after all, the function of them: (T, D)."""
        if num_layers < self._num_layers:
            return super().states(batch, num_layers)
        return self._states.apply(batch, self._of_tokens)

    def vectors(
        self, batch: Batch, poolings: Sequence[str], head: RowFunction = identity
    ) -> Floats:
        """Pool the last states, concatenating the poolings: (B, poolings * D).

        head: applied to them on the device, in float32.
        """

        def pooled(hidden: Tensor, layout: SequenceLayout) -> Tensor:
            return head(pool(self._of_tokens(hidden, layout), layout, poolings))

        return self._states.apply(batch, pooled)

    def _of_tokens(self, hidden: Tensor, layout: SequenceLayout) -> Tensor:
        return self._function(hidden[: layout.tokens])


class DeviceHeads:
    """Heads that read the last states in one pass; the host gets their outputs in one copy."""

    def __init__(self, encoder: TorchEncoder, heads: Mapping[str, Forward]) -> None:
        """heads: compute each output by its name, in float32."""
        self._encoder, self._heads = encoder, heads

    def __call__(self, batch: Batch, names: Collection[str]) -> dict[str, Floats]:
        """Compute the outputs of the given names: (B or T, dim) each."""
        shapes: dict[str, torch.Size] = {}

        def compute(hidden: Tensor, layout: SequenceLayout) -> Tensor:
            outputs = {name: self._heads[name](hidden, layout) for name in names}
            shapes.update({name: output.shape for name, output in outputs.items()})
            return torch.cat([output.flatten() for output in outputs.values()])

        flat = torch.from_numpy(self._encoder.apply(batch, compute))
        parts = torch.split(flat, [shape.numel() for shape in shapes.values()])
        return {
            name: part.view(shape).numpy()
            for (name, shape), part in zip(shapes.items(), parts, strict=True)
        }


def pooled(poolings: Sequence[str], head: RowFunction) -> Forward:
    """Return a head that applies a function to the states that are pooled: (B, dim)."""
    return lambda hidden, layout: head(pool(hidden, layout, poolings))


def of_tokens(head: RowFunction) -> Forward:
    """Return a head that applies a function to the state of each token: (T, dim)."""
    return lambda hidden, layout: head(hidden[: layout.tokens].float())


def with_layers_of_tokens(
    encoder: Encoder, folder: Path, modules: Sequence[Module], num_layers: int
) -> DeviceStateFunctionEncoder:
    """Add a classifier's modules before its pooling to its encoder on torch.

    num_layers: the number of layers of the encoder. Raises ModelError for weights that are missing
    or of a wrong shape.
    """
    assert isinstance(encoder, TorchEncoder)
    head = load_head(folder, modules, encoder.device)
    return DeviceStateFunctionEncoder(encoder, lambda states: head(states.float()), num_layers)


def with_mixed_layers(encoder: Encoder, weights: Floats, num_layers: int) -> Encoder:
    """Return an encoder whose last states are a mean, see LayerMixEncoder; in one pass on torch."""
    if not isinstance(encoder, TorchEncoder):
        return LayerMixEncoder(encoder, weights, num_layers)
    encoder.mix(weights)
    return encoder


def load_head(folder: Path, modules: Sequence[Module], device: torch.device) -> RowFunction:
    """Build the function of a model's modules, one after another.

    Raises ModelError for weights that are missing or of a wrong shape.
    """
    functions = [_load_module(folder, module, device) for module in modules]
    return lambda rows: reduce(lambda each, function: function(each), functions, rows)


def with_states_on_device(encoder: Encoder) -> TorchEncoder | DeviceStateFunctionEncoder | None:
    """Return an encoder if its `vectors` take a head on the device; None for another encoder."""
    return encoder if isinstance(encoder, TorchEncoder | DeviceStateFunctionEncoder) else None


def _load_module(folder: Path, module: Module, device: torch.device) -> RowFunction:
    match module:
        case Normalize():
            return normalize
        case Truncate(outputs):
            return lambda rows: rows[:, :outputs]
        case TanhInt8():
            return lambda rows: (127 * rows.tanh()).round()
        case LogitScore():
            return linear((load_score_row(folder, module), np.zeros(1, np.float32)), device)
        case ModuleNorm():
            weight, bias = pair_to_tensors(load_norm(folder, module))
            return LayerNorm(weight.to(device), bias.to(device), module.eps)
    # Activations that no layer includes have the names of torch's classes.
    return load_dense(
        *(folder, module),
        lambda weight, bias, activation: linear((weight, bias), device, activation),
        lambda name: getattr(nn, name)(),
    )


def linear(pair: WeightAndBias, device: torch.device, activation: str = "none") -> RowFunction:
    """Build a linear layer in float32 on a device. activation: a value of `ACTIVATIONS`."""
    return torch_linear_factory(device, torch.float32)(*pair_to_tensors(pair), activation)


def normalize(rows: Tensor) -> Tensor:
    """Divide each row by its Euclidean length; a row of zeros stays zero: (T, D) -> (T, D)."""
    # In float32 the squares of components beyond 1e19 would overflow.
    lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True, dtype=torch.float64)
    units: Tensor = rows / lengths.clamp(min=1e-12).float()
    return units
