"""Attention of each token's last state to trained latents, before the pooling.

NV-Embed: Lee et al. 2024, arXiv 2405.17428. B sequences, T tokens, D hidden size, H heads.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import Encoder, EncoderWithHead
from embedwell_models.encoder.pooling import pool_batch
from embedwell_models.torch_backend.latents import LatentWeights
from embedwell_models.torch_backend.linear import LinearFactory
from embedwell_models.torch_backend.norm import LayerNorm
from embedwell_models.vectors import Floats

_ROWS = 512  # tokens whose inner features are in memory at once
_EPS = 1e-5  # epsilon of both norms


class LatentAttention:
    """Attention to latents, then a gated feed-forward network (GEGLU: arXiv 2002.05202)."""

    def __init__(self, weights: LatentWeights, linear: LinearFactory, device: torch.device) -> None:
        """linear: builds the linear layers in a precision."""
        self._heads, self._dtype, self._device = weights.heads, linear.dtype, device
        self._attention_norm = self._norm(weights.attention_norm)
        self._ffn_norm = self._norm(weights.ffn_norm)
        score_bias, value_bias = (torch.zeros(len(w)) for w in (weights.scores, weights.values))
        self._scores = linear(weights.scores, score_bias, name="latents.scores")
        self._values = linear(weights.values, value_bias, name="latents.values")
        self._up = linear.gated(weights.gate, weights.up, "gelu", name="latents.up")
        self._down = linear(*weights.down, name="latents.down")

    @torch.inference_mode()
    def __call__(self, states: Floats) -> Floats:
        """Compute the pooled state of each token: (T, D) -> (T, D)."""
        x = torch.from_numpy(states).to(self._device, self._dtype)
        result: Floats = self.attend(x).cpu().numpy()
        return result

    def attend(self, states: Tensor) -> Tensor:
        """Compute the same on the device: (T, D) -> (T, D) in float32."""
        return torch.cat([self._apply(part) for part in torch.split(states, _ROWS)])

    def _apply(self, x: Tensor) -> Tensor:
        scores = self._scores(self._attention_norm(x)).view(len(x), self._heads, -1)
        x = self._values(scores.softmax(dim=-1).flatten(1), x)
        return self._down(self._up(self._ffn_norm(x)), x).float()

    def _norm(self, parts: tuple[Tensor, Tensor]) -> LayerNorm:
        weight, bias = (part.to(self._device, self._dtype) for part in parts)
        return LayerNorm(weight, bias, _EPS)


class LatentAttentionEncoder(EncoderWithHead):
    """Encoder whose last states attend to trained latents."""

    def __init__(self, encoder: Encoder, attention: LatentAttention, num_layers: int) -> None:
        super().__init__(encoder, num_layers)
        self._attention = attention

    def states(self, batch: Batch, num_layers: int) -> Floats:
        """Return the states after `num_layers` layers; after all layers, with latent attention.

        -> (T, D).
        """
        states = super().states(batch, num_layers)
        return self._attention(states) if num_layers == self._num_layers else states

    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        """Pool the last states, concatenating the poolings: (B, poolings * D)."""
        return pool_batch(self.states(batch, self._num_layers), batch, poolings)
