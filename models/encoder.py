"""The transformer encoder, over packed tensors: no padding, no attention mask.

B sequences, T tokens, D hidden size.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.batch import Batch
from models.config import EncoderConfig
from models.layers import Norm, TorchLayers
from models.packing import Packing
from models.pooling import pool
from models.positions import Learned
from models.weights import Weights

PARTS = ("token", "position", "segment")
Floats = npt.NDArray[np.float32]


class Encoder(Protocol):
    """Token ids to hidden states, and to vectors."""

    def states(self, batch: Batch, count: int) -> Floats:
        """Hidden states after so many layers: (T, D)."""
        ...

    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        """The poolings of each sequence's last hidden states, side by side: (B, poolings * D)."""
        ...

    def warm(self) -> None:
        """Do once what the first batches would wait for."""
        ...


class Embeddings:
    """What enters the first layer. Its tables stay in float32 in every precision.

    A lookup is cheap, and their sum is exact.
    """

    def __init__(self, config: EncoderConfig, weights: Weights, device: torch.device) -> None:
        self.config, self.device = config, device
        self._tables = {part: weights[f"{part}_table"].to(device) for part in PARTS}
        weight, bias = (weights[f"norm.{part}"].to(device) for part in ("weight", "bias"))
        self.norm = Norm(weight, bias, config.norm_eps)
        self.tokens = self._tables["token"]
        self.positions = Learned(self._tables["position"], self._tables["segment"][0])

    def __call__(self, ids: Tensor, packing: Packing) -> Tensor:
        """(T,) -> (T, D)."""
        return self.norm(self.positions.embed(self.tokens[ids], packing.positions))

    def part(self, name: str, batch: Batch) -> Floats:
        """One summand of the input, as the checkpoint holds it: (T, D)."""
        rows = {"token": batch.ids, "position": batch.positions, "segment": 0 * batch.ids}
        index = torch.from_numpy(rows[name]).to(self.device)
        found: Floats = self._tables[name][index].cpu().numpy()
        return found


class TorchEncoder:
    """An encoder on torch alone, on any device.

    Vaswani et al. 2017 (arXiv 1706.03762) with the post-norm layers of BERT (arXiv 1810.04805).
    """

    def __init__(self, embeddings: Embeddings, layers: TorchLayers) -> None:
        self.warm = layers.warm
        self._embeddings, self._layers = embeddings, layers

    @torch.inference_mode()
    def states(self, batch: Batch, count: int) -> Floats:
        """Hidden states after so many layers: (T, D)."""
        hidden, packing = self._run(batch, count)
        found: Floats = hidden[: packing.tokens].to(torch.float32).cpu().numpy()
        return found

    @torch.inference_mode()
    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        """The poolings of each sequence's last hidden states, side by side: (B, poolings * D)."""
        found: Floats = pool(*self._run(batch, len(self._layers)), poolings).cpu().numpy()
        return found

    def _run(self, batch: Batch, count: int) -> tuple[Tensor, Packing]:
        packing = Packing(batch.lengths.tolist(), self._embeddings.device, self._layers.dtype)
        flat = np.zeros(packing.rows, dtype=np.int64)
        flat[: packing.tokens] = batch.ids
        ids = torch.from_numpy(flat).to(self._embeddings.device)
        hidden = self._embeddings(ids, packing).to(self._layers.dtype)
        return self._layers(hidden, packing, count), packing
