"""Third part of a layer, gated by the input vectors of the tokens (EmbeddingGemma 2).

T tokens, D width of the states, P width of a gate, L layers.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.torch_backend.linear import Linear, LinearFactory
from embedwell_models.torch_backend.norm import Norm, build_norm
from embedwell_models.torch_backend.tensors import Tensors


@dataclass(frozen=True)
class InputGate:
    """Bottleneck of the states times features of the token ("per-layer embeddings").

    features: features of token vectors (T, D) -> (T, P). down: (T, D) -> (T, P). up: (T, P) -> (T,
    D).
    scale: (1,), factor of the layer's result.
    """

    features: Linear
    features_norm: Norm
    down: Linear
    up: Linear
    norm: Norm
    scale: Tensor

    def __call__(self, x: Tensor, tokens: Tensor) -> Tensor:
        """Apply the gate to states x (T, D), with the input vectors of the tokens (T, D)."""
        gated = self.down(x) * self.features_norm(self.features(tokens))
        return (x + self.norm(self.up(gated))) * self.scale


def input_gates(
    config: EncoderConfig, weights: Tensors, linear: LinearFactory, device: torch.device
) -> list[InputGate]:
    """Build the gate of each layer; return an empty list for a model without gates."""
    if "gates.weight" not in weights:
        return []

    def norm(name: str) -> Norm:
        return build_norm(config, weights, name, device, linear.dtype)

    def project(name: str, weight: Tensor, activation: str = "none") -> Linear:
        return linear(weight, weight.new_zeros(len(weight)), activation, name=name)

    return [
        InputGate(
            features=project(f"{name}.gate_features", gate_features(config, weights, index)),
            features_norm=norm("gates_norm"),
            down=project(
                f"{name}.gate_down",
                weights[f"{name}.gate_down.weight"],
                config.feed_forward.activation,
            ),
            up=project(f"{name}.gate_up", weights[f"{name}.gate_up.weight"]),
            norm=norm(f"{name}.gate_norm"),
            scale=weights[f"{name}.scale"].to(device, linear.dtype),
        )
        for index, name in enumerate(f"layers.{index}" for index in range(config.num_layers))
    ]


def gate_features(config: EncoderConfig, weights: Tensors, layer: int) -> Tensor:
    """Return the feature matrix (P, D) of a layer, from the matrix (L * P, D) of all layers."""
    scale: float = config.hidden_size**-0.5
    return weights["gates.weight"].tensor_split(config.num_layers)[layer] * scale
