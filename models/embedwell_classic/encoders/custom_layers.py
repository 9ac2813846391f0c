"""Base of encoders on torch that are not plain transformers, over packed sequences.

B sequences, T tokens, D width of the states.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from embedwell_models.checkpoint import weights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.encoder.batch import Batch, Integers
from embedwell_models.encoder.encoder import SequentialEncoder
from embedwell_models.torch_backend.device import current_device, resolve_device
from embedwell_models.torch_backend.linear import Linear, LinearFactory, TorchLinearFactory
from embedwell_models.torch_backend.linear_adapters import row_exact_linear_factory
from embedwell_models.torch_backend.norm import Norm, build_norm
from embedwell_models.torch_backend.pooling import pool
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.tensors import Tensors, to_tensors
from embedwell_models.vectors import Floats


@dataclass(frozen=True)
class LayerBuilder:
    """Builder of an encoder's parts from the tensors of a checkpoint.

    options: the folder's config.json. factory: builds linear layers, on a CPU with independent
    rows.
    """

    config: EncoderConfig
    options: JsonConfig
    weights: Tensors
    factory: LinearFactory
    device: torch.device

    def tensor(self, name: str) -> Tensor:
        """Return a tensor on the device."""
        return self.weights[name].to(self.device)

    def linear(self, *names: str, activation: str = "none") -> Linear:
        """Build one linear layer of several that read the same input; biases are optional."""
        weight = torch.cat([self.weights[f"{name}.weight"] for name in names])
        biases = [self.weights[f"{name}.bias"] for name in names if f"{name}.bias" in self.weights]
        bias = torch.cat(biases) if biases else torch.zeros(len(weight))
        return self.factory(weight, bias, activation, name=names[0])

    def norm(self, name: str) -> Norm:
        """Build the norm of a name."""
        return build_norm(self.config, self.weights, name, self.device)


@dataclass(frozen=True)
class PooledStates:
    """Pooled states (rows, D) on the device. lengths: rows of each of B texts.

    prompt_counts: (B,) number of first rows of each text that are left out.
    """

    states: Tensor
    lengths: Sequence[int]
    prompt_counts: Integers


class CustomLayersEncoder(SequentialEncoder, ABC):
    """Encoder in float32; subclasses build the layers, and compute the states after each."""

    def __init__(self, build: LayerBuilder) -> None:
        self.config, self.device = build.config, build.device

    @classmethod
    @torch.inference_mode()
    def load(cls, description: ModelDescription, device: str, cpu_features: frozenset[str]) -> Self:
        """Load the encoder of a folder; raises ModelError.

        cpu_features: see embedwell_models.cpu_backend.library.
        """
        place = resolve_device(device)
        linear = (
            row_exact_linear_factory(cpu_features)
            if place.type == "cpu"
            else TorchLinearFactory(place, torch.float32)
        )
        tensors = to_tensors(weights.load(description.encoder, description.spec))
        options = JsonConfig(description.encoder / "config.json")
        return cls(LayerBuilder(description.spec.config, options, tensors, linear, place))

    @abstractmethod
    def hidden(self, batch: Batch, num_layers: int) -> Tensor:
        """Compute the states after the first `num_layers` layers, on the device: (T, D)."""

    def summand(self, name: str, batch: Batch) -> Tensor:
        """Return a summand of the first layer's input on the device; by default the whole input."""
        return self.hidden(batch, 0)

    @torch.inference_mode()
    def part(self, name: str, batch: Batch) -> Floats:
        """Return the input vectors of the first layer, or one of their summands."""
        part: Floats = self.summand(name, batch).cpu().numpy()
        return part

    def pooled_states(self, batch: Batch) -> PooledStates:
        """Compute the last states that are pooled; by default the states of tokens."""
        states = self.hidden(batch, self.config.num_layers)
        return PooledStates(states, batch.lengths.tolist(), batch.prompt_token_counts)

    @torch.inference_mode()
    def states(self, batch: Batch, num_layers: int) -> Floats:
        """Return the states after the first `num_layers` layers: (T, D)."""
        with current_device(self.device):
            states: Floats = self.hidden(batch, num_layers).cpu().numpy()
        return states

    @torch.inference_mode()
    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        """Pool the last states, concatenating the poolings: (B, poolings * D)."""
        with current_device(self.device):
            rows = self.pooled_states(batch)
            layout = SequenceLayout(rows.lengths, self.device, skipped=rows.prompt_counts)
            vectors: Floats = pool(rows.states, layout, poolings).cpu().numpy()
        return vectors
