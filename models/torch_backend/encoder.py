"""The transformer encoder, over packed tensors: no padding, no attention mask.

B sequences, T tokens, D hidden size.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from models.checkpoint.weights import Weights
from models.config.encoder_config import EncoderConfig
from models.encoder.async_copy import Arrival, send
from models.encoder.batch import Batch
from models.encoder.pooling import pool
from models.encoder.position_tensors import of_input
from models.encoder.sequence_layout import Packing, Shape
from models.torch_backend.assembly import TorchLayers
from models.torch_backend.cuda_graphs import Eager, Forward, Passes
from models.torch_backend.linear import fastest
from models.torch_backend.norm import Norm, norm, unchanged
from models.vectors import Floats


class Encoder(Protocol):
    """Token ids to hidden states, and to vectors."""

    @property
    def max_concurrent_batches(self) -> int:
        """How many forward passes can run at once, each on a single thread."""
        ...

    @property
    def prefetch_depth(self) -> int:
        """How many more forward passes can wait on the device for the one that it computes."""
        ...

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
        self.tokens = weights["token_table"].to(device)
        self.norm = norm(config, weights, "norm", device)
        self.positions = of_input(config, weights, device)
        # Every token is of the first segment: a constant.
        self.segment = weights.get("segment_table", self.tokens.new_zeros(1, 1))[0].to(device)
        self._project = _projection(weights, device)

    def __call__(self, ids: Tensor, packing: Packing) -> Tensor:
        """(T,) -> (T, D)."""
        hidden = self.tokens[ids] * self.config.token_scale + self.segment
        return self._project(self.norm(self.positions.embed(hidden, ids, packing.positions)))

    def part(self, name: str, batch: Batch) -> Floats:
        """One summand of the input, as the checkpoint holds it: (T, embedding size)."""
        ids = torch.from_numpy(batch.ids).to(self.device)
        places = torch.from_numpy(batch.positions).to(self.device)
        nothing = self.tokens.new_zeros(len(ids), self.tokens.shape[1])
        made = {
            "token": lambda: self.tokens[ids] * self.config.token_scale,
            "position": lambda: self.positions.embed(nothing, ids, places),
            "segment": lambda: nothing + self.segment,
        }
        found: Floats = made[name]().cpu().numpy()
        return found


def _projection(weights: Weights, device: torch.device) -> Norm:
    if "project.weight" not in weights:
        return unchanged
    return fastest(device, torch.float32)(weights["project.weight"], weights["project.bias"])


class TorchEncoder:
    """An encoder on torch alone, on any device.

    Vaswani et al. 2017 (arXiv 1706.03762), in the arrangement that the config tells.
    """

    def __init__(
        self,
        embeddings: Embeddings,
        layers: TorchLayers,
        passes: Callable[[Forward], Passes] = Eager,
    ) -> None:
        """passes: how the passes over all layers are run."""
        self._embeddings, self._layers = embeddings, layers
        # Not a method of this encoder: it would hold itself, and be freed late.
        self._passes = passes(partial(_run, embeddings, layers, len(layers)))
        # To a GPU passes go one after another. On a CPU a short one need not wait for a long one.
        shared = self._passes.shared or embeddings.device.type == "cuda"
        self._entrance = threading.Lock() if shared else nullcontext()

    @property
    def max_concurrent_batches(self) -> int:
        """One: concurrent forward passes would wait for the GIL at every operation."""
        return 1

    @property
    def prefetch_depth(self) -> int:
        """One on a GPU, which computes while the host prepares the next batch; else none."""
        return int(self._embeddings.device.type == "cuda")

    @torch.inference_mode()
    def states(self, batch: Batch, count: int) -> Floats:
        """Hidden states after so many layers: (T, D)."""
        ids, packing = self._packed(batch, Shape.of)
        with self._entrance:
            hidden = _run(self._embeddings, self._layers, count, ids, packing)
            found = Arrival(hidden[: packing.tokens].to(torch.float32))
        return found.wait()

    @torch.inference_mode()
    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        """The poolings of each sequence's last hidden states, side by side: (B, poolings * D)."""
        ids, packing = self._packed(batch, self._passes.shape)
        with self._entrance:
            hidden = self._passes(ids, packing)
            found = Arrival(pool(hidden, packing, poolings, torch.from_numpy(batch.skips)))
        return found.wait()

    @torch.inference_mode()
    def warm(self) -> None:
        """Do once what the first batches would wait for."""
        self._layers.warm()
        self._passes.warm()

    def _packed(
        self, batch: Batch, shape: Callable[[Sequence[int]], Shape]
    ) -> tuple[Tensor, Packing]:
        lengths, device = batch.lengths.tolist(), self._embeddings.device
        packing = Packing(lengths, device, self._layers.dtype, shape(lengths))
        self._layers.prepare(packing)
        flat = np.zeros(packing.rows, dtype=np.int64)
        flat[: packing.tokens] = batch.ids
        (ids,) = send(device, torch.from_numpy(flat))
        return ids, packing


def _run(
    embeddings: Embeddings, layers: TorchLayers, count: int, ids: Tensor, packing: Packing
) -> Tensor:
    """(T,) -> (T, D), after so many layers."""
    hidden = embeddings(ids, packing).to(layers.dtype)
    return layers(hidden, packing, count)
