"""The transformer encoder, over packed tensors: no padding, no attention mask.

T tokens, D hidden size.
"""

import torch
from torch import Tensor

from models.config import EncoderConfig
from models.layers import Layers, Norm
from models.packing import Packing
from models.positions import Learned
from models.weights import Weights

PARTS = ("token", "position", "segment")


class Embeddings:
    """What enters the first layer. Its tables stay in float32 in every precision.

    A lookup is cheap, and their sum is exact.
    """

    def __init__(self, config: EncoderConfig, weights: Weights, device: torch.device) -> None:
        self.device = device
        self._tables = {part: weights[f"{part}_table"].to(device) for part in PARTS}
        weight, bias = (weights[f"norm.{part}"].to(device) for part in ("weight", "bias"))
        self._norm = Norm(weight, bias, config.norm_eps)
        self.positions = Learned(self._tables["position"], self._tables["segment"][0])

    def __call__(self, ids: Tensor, packing: Packing) -> Tensor:
        """(T,) -> (T, D)."""
        return self._norm(self.positions.embed(self._tables["token"][ids], packing.positions))

    def part(self, name: str, ids: Tensor, packing: Packing) -> Tensor:
        """One summand of the input, as the checkpoint holds it: (T,) -> (T, D)."""
        rows = {"token": ids, "position": packing.positions, "segment": torch.zeros_like(ids)}
        return self._tables[name][rows[name]]


class Encoder:
    """Token ids to hidden states.

    Vaswani et al. 2017 (arXiv 1706.03762) with the post-norm layers of BERT (arXiv 1810.04805).
    """

    def __init__(self, config: EncoderConfig, embeddings: Embeddings, layers: Layers) -> None:
        self.config, self.device = config, embeddings.device
        self.dtype = layers.dtype
        self.part = embeddings.part
        self.warm = layers.warm
        self._embeddings, self._layers = embeddings, layers

    def __call__(self, ids: Tensor, packing: Packing, layer: int | None = None) -> Tensor:
        """Hidden states after `layer` layers (all by default): (T,) -> (T, D)."""
        count = self.config.num_layers if layer is None else layer
        return self._layers(self._embeddings(ids, packing).to(self.dtype), packing, count)
