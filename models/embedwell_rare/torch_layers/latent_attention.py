"""Attention to trained latents on torch, on any device.

T tokens, D hidden size.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from embedwell_models.encoder.encoder import Encoder, WeightAndBias
from embedwell_models.encoder.encoders_with_heads import StateFunctionEncoder
from embedwell_models.torch_backend.device_heads import DeviceStateFunctionEncoder
from embedwell_models.torch_backend.encoder import TorchEncoder
from embedwell_models.torch_backend.linear import LinearFactory
from embedwell_models.torch_backend.norm import LayerNorm
from embedwell_models.torch_backend.tensors import pair_to_tensors
from embedwell_models.vectors import Floats
from embedwell_rare.latent_attention import (
    FEATURE_ROWS,
    NORM_EPS,
    LatentSpec,
    LatentWeights,
    load_latent_weights,
)


class TorchLatentAttention:
    """Attention of each token's last state to trained latents, then a gated network.

    NV-Embed: Lee et al. 2024, arXiv 2405.17428. GEGLU: Shazeer 2020, arXiv 2002.05202.
    """

    def __init__(self, weights: LatentWeights, linear: LinearFactory, device: torch.device) -> None:
        """linear: builds the linear layers in a precision."""
        self._heads, self._dtype, self._device = weights.heads, linear.dtype, device
        self._attention_norm = self._norm(weights.attention_norm)
        self._ffn_norm = self._norm(weights.ffn_norm)
        scores, values = torch.from_numpy(weights.scores), torch.from_numpy(weights.values)
        self._scores = linear(scores, torch.zeros(len(scores)), name="latents.scores")
        self._values = linear(values, torch.zeros(len(values)), name="latents.values")
        gate, up = pair_to_tensors(weights.gate), pair_to_tensors(weights.up)
        self._up = linear.gated(gate, up, "gelu", name="latents.up")
        self._down = linear(*pair_to_tensors(weights.down), name="latents.down")

    @torch.inference_mode()
    def __call__(self, states: Floats) -> Floats:
        """Compute the pooled state of each token: (T, D) -> (T, D)."""
        x = torch.from_numpy(states).to(self._device, self._dtype)
        result: Floats = self.attend(x).cpu().numpy()
        return result

    def attend(self, states: Tensor) -> Tensor:
        """Compute the same on the device: (T, D) -> (T, D) in float32."""
        return torch.cat([self._apply(part) for part in torch.split(states, FEATURE_ROWS)])

    def _apply(self, x: Tensor) -> Tensor:
        scores = self._scores(self._attention_norm(x)).view(len(x), self._heads, -1)
        x = self._values(scores.softmax(dim=-1).flatten(1), x)
        return self._down(self._up(self._ffn_norm(x)), x).float()

    def _norm(self, parts: WeightAndBias) -> LayerNorm:
        weight, bias = (part.to(self._device, self._dtype) for part in pair_to_tensors(parts))
        return LayerNorm(weight, bias, NORM_EPS)


def load(folder: Path, spec: LatentSpec) -> Callable[[Encoder, LinearFactory, int], Encoder]:
    """Load the attention for encoders on torch; raises ModelError as `load_latent_weights`."""
    weights = load_latent_weights(folder, spec)

    def add(encoder: Encoder, linear: LinearFactory, num_layers: int) -> Encoder:
        assert isinstance(encoder, TorchEncoder)
        attention = TorchLatentAttention(weights, linear, encoder.device)
        return with_attention(encoder, attention, num_layers)

    return add


def with_attention(
    encoder: TorchEncoder, attention: TorchLatentAttention, num_layers: int
) -> Encoder:
    """Add the attention to an encoder of as many layers; the states stay on its device."""
    # On a CPU the states are already where the attention needs them.
    if encoder.device.type == "cpu":
        return StateFunctionEncoder(encoder, attention, num_layers)
    return DeviceStateFunctionEncoder(encoder, attention.attend, num_layers)
