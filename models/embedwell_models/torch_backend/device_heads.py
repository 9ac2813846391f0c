"""Heads over the states of tokens, on the device that has the states.

B sequences, T tokens, D hidden size.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial, reduce
from pathlib import Path

import torch
from torch import Tensor, nn

from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import Encoder
from embedwell_models.encoder.encoders_with_heads import LayerMixEncoder
from embedwell_models.encoder.layers import WeightAndBias
from embedwell_models.encoder.vector_modules import load_dense
from embedwell_models.model_files.vector_modules import Dense, Module, Normalize, Truncate
from embedwell_models.torch_backend.cuda_graphs import Forward
from embedwell_models.torch_backend.device_state_function import DeviceStateFunctionEncoder
from embedwell_models.torch_backend.encoder import TorchEncoder
from embedwell_models.torch_backend.linear import torch_linear_factory
from embedwell_models.torch_backend.pooling import pool
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.tensors import pair_to_tensors
from embedwell_models.vectors import Floats

Transform = Callable[[Tensor], Tensor]
"""Function of rows in float32: (T, in) -> (T, out)."""


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


def pooled(poolings: Sequence[str]) -> Forward:
    """Return a head that pools the states, concatenating the poolings: (B, poolings * D)."""
    return lambda hidden, layout: pool(hidden, layout, poolings)


def of_tokens(transforms: Sequence[Transform]) -> Forward:
    """Return a head that applies functions to the state of each token: (T, dim)."""

    def apply(hidden: Tensor, layout: SequenceLayout) -> Tensor:
        return _applied(transforms, hidden[: layout.tokens])

    return apply


def with_layers_of_tokens(
    encoder: Encoder, folder: Path, modules: Sequence[Module], num_layers: int
) -> DeviceStateFunctionEncoder:
    """Add a classifier's modules before its pooling to its encoder on torch.

    num_layers: the number of layers of the encoder. Raises ModelError for weights that are missing
    or of a wrong shape.
    """
    assert isinstance(encoder, TorchEncoder)
    transforms = [load_transform(folder, module, encoder.device) for module in modules]
    return DeviceStateFunctionEncoder(encoder, partial(_applied, transforms), num_layers)


def with_mixed_layers(encoder: Encoder, weights: Floats, num_layers: int) -> Encoder:
    """Return an encoder whose last states are a mean, see LayerMixEncoder; in one pass on torch."""
    if not isinstance(encoder, TorchEncoder):
        return LayerMixEncoder(encoder, weights, num_layers)
    encoder.mix(weights)
    return encoder


def _applied(transforms: Sequence[Transform], rows: Tensor) -> Tensor:
    return reduce(lambda each, transform: transform(each), transforms, rows.float())


def load_transform(folder: Path, module: Module, device: torch.device) -> Transform:
    """Build the function of a module of a multi-vector model.

    Raises ModelError for weights that are missing or of a wrong shape.
    """
    if isinstance(module, Normalize):
        return normalize
    if isinstance(module, Truncate):
        return lambda rows: rows[:, : module.outputs]
    assert isinstance(module, Dense)  # see model_files.multi_vector
    # Activations that no layer includes have the names of torch's classes.
    return load_dense(
        *(folder, module),
        lambda weight, bias, activation: linear((weight, bias), device, activation),
        lambda name: getattr(nn, name)(),
    )


def linear(pair: WeightAndBias, device: torch.device, activation: str = "none") -> Transform:
    """Build a linear layer in float32 on a device. activation: a name of `config.activations`."""
    return torch_linear_factory(device, torch.float32)(*pair_to_tensors(pair), activation)


def normalize(rows: Tensor) -> Tensor:
    """Divide each row by its Euclidean length; a row of zeros stays zero: (T, D) -> (T, D)."""
    # In float32 the squares of components beyond 1e19 would overflow.
    lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True, dtype=torch.float64)
    units: Tensor = rows / lengths.clamp(min=1e-12).float()
    return units
