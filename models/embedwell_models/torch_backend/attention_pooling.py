"""Pooling of an image's patches by attention with a trained query (SigLIP's head), in float32.

Zhai et al. 2022 (arXiv 2106.04560). T patches, D width, H heads, Dh head size.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.encoder.tensors import to_tensors
from embedwell_models.torch_backend.linear import ACTIVATIONS
from embedwell_models.vectors import Floats


class AttentionPooling:
    """Attention of one trained query over the states of an image, then a feed-forward network.

    The query is the same for every image, so its product with the key matrix is computed once: the
    score of a patch in a head is a dot product with D numbers. The bias of the keys adds the same
    number to all scores of a head, so the softmax cancels it.
    """

    def __init__(self, config: EncoderConfig, arrays: Weights) -> None:
        weights = to_tensors(arrays)
        heads, size = config.attention.heads, config.attention.head_size
        query = F.linear(weights["pool.probe"], weights["pool.query.weight"])
        query = (query + weights["pool.query.bias"]).view(heads, 1, size)
        keys = weights["pool.key.weight"].view(heads, size, -1)
        self._scores = (query @ keys).squeeze(1) * config.attention.scale  # (H, D)
        self._values = weights["pool.value.weight"].view(heads, size, -1)  # (H, Dh, D)
        names = [f"pool.{name}" for name in ("output", "norm", "up", "down")]
        parts = [f"{name}.{part}" for name in names for part in ("weight", "bias")]
        self._weights = {name: weights[name] for name in (*parts, "pool.value.bias")}
        self._eps = config.norm_eps
        self._activation = ACTIVATIONS[config.feed_forward.activation].function

    @torch.inference_mode()
    def __call__(self, states: Floats) -> Floats:
        """Pool the states of one image: (T, D) -> (D,)."""
        x = torch.from_numpy(states)
        weights = (self._scores @ x.T).softmax(dim=1)  # (H, T)
        mixed = (self._values @ (weights @ x).unsqueeze(2)).flatten()  # (D,)
        pooled = self._linear("output", mixed + self._weights["pool.value.bias"])
        hidden = self._activation(self._linear("up", self._norm(pooled)))
        vector: Floats = (pooled + self._linear("down", hidden)).numpy()
        return vector

    def _norm(self, x: Tensor) -> Tensor:
        weight, bias = (self._weights[f"pool.norm.{part}"] for part in ("weight", "bias"))
        return F.layer_norm(x, x.shape, weight, bias, self._eps)

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self._weights[f"pool.{name}.weight"], self._weights[f"pool.{name}.bias"])
