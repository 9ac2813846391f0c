"""Transformer encoder on torch, over packed sequences without padding.

B sequences, T tokens, D hidden size.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cached_property, partial

import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.batch_shape import BatchShape
from embedwell_models.positions.schemes import Rotary
from embedwell_models.torch_backend.cuda_graphs import EagerRunner, Forward, ForwardRunner
from embedwell_models.torch_backend.device import current_device, runs_triton
from embedwell_models.torch_backend.embedding_tables import (
    EmbeddingTables,
    EmbedRows,
)
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear_choice import torch_linear_factory
from embedwell_models.torch_backend.norm import Norm, build_norm, identity
from embedwell_models.torch_backend.pooling import pool
from embedwell_models.torch_backend.position_builder import input_position_hooks
from embedwell_models.torch_backend.position_hooks import PaddedPositionTable, PositionTable
from embedwell_models.torch_backend.rotary import set_angles
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.tensors import HostCopy, Tensors, short_or_float32, to_tensors
from embedwell_models.vectors import Doubles, Floats

RowFunction = Callable[[Tensor], Tensor]
"""Function of rows in float32: (B or T, in) -> (B or T, out)."""


class InputEmbeddings:
    """Embeddings that compute the input of the first layer, in float32 in every precision.

    A look-up is cheap, and float32 keeps the sum of the tables exact.
    """

    def __init__(
        self,
        config: EncoderConfig,
        arrays: Weights,
        device: torch.device,
        embed_rows: EmbedRows | None = None,
    ) -> None:
        """embed_rows: by default the kernel of the device, if it has one."""
        weights = to_tensors(arrays, device)
        self.config, self.device = config, device
        self._embed_rows = embed_rows or _embed_rows_function(device)
        # The kernel reads numbers of 16 bits, which are the same in float32.
        stored = short_or_float32(arrays, "token_table", device) if self._embed_rows else None
        self.tokens = weights["token_table"] if stored is None else stored
        self.norm = build_norm(config, weights, "norm", device)
        self.positions = input_position_hooks(config, arrays, device)
        # (segments, D). Without pairs, every token belongs to the first segment.
        self.segments = weights.get("segment_table", torch.zeros(1, 1, device=device))
        self._project = _projection(weights, device)

    def __call__(
        self, ids: Tensor, layout: SequenceLayout, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Embed token ids (T,), or add positions to token vectors (T, D); return (T, D)."""
        if ids.ndim == 2:
            zeros = torch.zeros_like(layout.positions)
            return self.norm(self.positions.embed(ids, zeros, layout.positions)).to(dtype)
        if self._embed_rows is None:
            return self._project(self._sums(ids, layout)).to(dtype)
        sums = dtype if self._project is identity else torch.float32
        return self._project(self._embed_rows(self._tables, ids, layout.positions, sums)).to(dtype)

    def _sums(self, ids: Tensor, layout: SequenceLayout) -> Tensor:
        segment = self.segments[0]
        if self.config.two_segments:
            segment = self.segments.index_select(0, ids // self.config.vocab_size)
            ids = ids % self.config.vocab_size
        hidden = self.tokens.index_select(0, ids) * self.config.token_scale + segment
        return self.norm(self.positions.embed(hidden, ids, layout.positions))

    @cached_property
    def _tables(self) -> EmbeddingTables:
        config, hooks = self.config, self.positions
        added = hooks if isinstance(hooks, PositionTable | PaddedPositionTable) else None
        return EmbeddingTables(
            tokens=self.tokens,
            scale=config.token_scale,
            segments=self.segments,
            vocab_size=config.vocab_size if config.two_segments else 0,
            positions=added.table if added else None,
            padding=added.padding if added else -1,
            norm=self.norm,
        )

    def part(self, name: str, batch: Batch) -> Floats:
        """Return one of the embeddings whose sum is the input: (T, embedding size)."""
        ids = torch.from_numpy(batch.ids).to(self.device)
        positions = torch.from_numpy(batch.positions).to(self.device)
        zeros = self.segments.new_zeros(len(ids), self.tokens.shape[1])
        parts = {
            "token": lambda: self.tokens.index_select(0, ids).float() * self.config.token_scale,
            "position": lambda: self.positions.embed(zeros, ids, positions),
            "segment": lambda: zeros + self.segments[0],
        }
        part: Floats = parts[name]().cpu().numpy()
        return part


def _embed_rows_function(device: torch.device) -> EmbedRows | None:
    """Return the kernel of a GPU; None where torch's operators compute the sum."""
    if not runs_triton(device):
        return None
    from embedwell_models.torch_backend.triton_kernels.embedding import embed_rows

    return embed_rows


def _projection(weights: Tensors, device: torch.device) -> Norm:
    if "project.weight" not in weights:
        return identity
    return torch_linear_factory(device, torch.float32)(
        weights["project.weight"], weights["project.bias"]
    )


class TorchEncoder:
    """Transformer encoder on torch, for any device.

    Vaswani et al. 2017 (arXiv 1706.03762), with the config's arrangement of norms.
    """

    max_concurrent_batches = 1
    """Concurrent forward passes would wait for the GIL at every operation."""

    def __init__(
        self,
        embeddings: InputEmbeddings,
        layers: TorchLayers,
        runner: Callable[[Forward], ForwardRunner] = EagerRunner,
    ) -> None:
        """runner: builds the runner of forward passes over all layers."""
        self._embeddings, self._layers = embeddings, layers
        # Not a bound method, because its reference cycle would delay the release of the weights.
        self._run = partial(_run, embeddings, layers)
        self._runner = runner(self._run)
        # A GPU gets one forward pass at a time. On a CPU a short pass does not wait for a long one.
        exclusive = self._runner.shares_memory or embeddings.device.type == "cuda"
        self._lock = threading.Lock() if exclusive else nullcontext()

    @property
    def device(self) -> torch.device:
        """The device of the hidden states."""
        return self._embeddings.device

    @property
    def prefetch_depth(self) -> int:
        """One on a GPU, which computes while the host prepares the next batch; otherwise zero."""
        return int(self._embeddings.device.type == "cuda")

    def mix(self, weights: Floats) -> None:
        """Replace the last states by a mean of those after the last layers, before `warm`.

        weights: of these states, the last one's at the end.
        """
        self._layers.mix(weights.tolist())

    def states(self, batch: Batch, num_layers: int) -> Floats:
        """Return the hidden states after the first `num_layers` layers: (T, D)."""
        return self.apply(batch, _token_rows, num_layers)

    def vectors(
        self, batch: Batch, poolings: Sequence[str], head: RowFunction = identity
    ) -> Floats:
        """Pool the last hidden states, concatenating the poolings: (B, poolings * D).

        head: applied to them on the device, in float32.
        """
        return self.apply(batch, lambda hidden, layout: head(pool(hidden, layout, poolings)))

    @torch.inference_mode()
    def apply(self, batch: Batch, function: Forward, num_layers: int | None = None) -> Floats:
        """Apply a function to hidden states on the device: (rows, D) -> its result.

        num_layers: the number of layers before it; None for all. Rows after the last token may hold
        anything.
        """
        # Recorded graphs have all layers, read token ids, and attend to all tokens.
        replays = (
            num_layers in (None, len(self._layers))
            and batch.token_vectors is None
            and batch.key_counts is None
        )
        with current_device(self.device):
            layout = self._layout(batch, self._runner.shape if replays else BatchShape.of)
            rows = None if replays else self._rows(batch, layout)
            with self._lock:
                hidden = (
                    self._runner(layout) if rows is None else self._run(rows, layout, num_layers)
                )
                copy = HostCopy(function(hidden, layout))
        return copy.wait()

    def vectors_at(
        self, batch: Batch, angles: Doubles, additions: Sequence[Floats], poolings: Sequence[str]
    ) -> Floats:
        """Pool the last hidden states; for the arguments see EncoderOfVectors."""
        return self._apply_at(
            batch, angles, additions, lambda hidden, layout: pool(hidden, layout, poolings)
        )

    def states_at(self, batch: Batch, angles: Doubles, additions: Sequence[Floats]) -> Floats:
        """Return the last hidden states: (T, D). For the arguments see EncoderOfVectors."""
        return self._apply_at(batch, angles, additions, _token_rows)

    @torch.inference_mode()
    def _apply_at(
        self, batch: Batch, angles: Doubles, additions: Sequence[Floats], function: Forward
    ) -> Floats:
        scheme, layers = self._embeddings.config.attention.positions, self._layers
        assert isinstance(scheme, Rotary) and batch.token_vectors is not None
        with current_device(self.device):
            layout = self._layout(batch, BatchShape.of)
            set_angles(layout, scheme, self._padded(angles, layout), layers.dtype)
            hidden = self._padded(batch.token_vectors, layout)
            added = [self._padded(each, layout).to(layers.dtype) for each in additions]
            with self._lock:
                states = layers(hidden.to(layers.dtype), layout, len(layers), added)
                copy = HostCopy(function(states, layout))
        return copy.wait()

    @torch.inference_mode()
    def warm(self) -> None:
        """Prepare the encoder, so that the first batches need not wait."""
        with current_device(self.device):
            self._layers.warm()
            self._runner.warm()

    def _layout(self, batch: Batch, shape: Callable[[Sequence[int]], BatchShape]) -> SequenceLayout:
        lengths = batch.lengths.tolist()
        layout = SequenceLayout(
            *(lengths, self._embeddings.device, self._layers.dtype, shape(lengths)),
            ids=batch.ids,
            key_counts=batch.key_counts,
            skipped=batch.prompt_token_counts,
        )
        self._layers.prepare_layout(layout)
        return layout

    def _rows(self, batch: Batch, layout: SequenceLayout) -> Tensor:
        # The ids, (rows,), or token vectors in place of them, (rows, D).
        vectors = batch.token_vectors
        return layout.ids if vectors is None else self._padded(vectors, layout)

    def _padded(self, array: Floats | Doubles, layout: SequenceLayout) -> Tensor:
        # (T, D) -> (rows, D) on the device.
        rows = torch.from_numpy(array).to(self._embeddings.device)
        return F.pad(rows, (0, 0, 0, layout.rows - layout.tokens))


def _token_rows(hidden: Tensor, layout: SequenceLayout) -> Tensor:
    return hidden[: layout.tokens].to(torch.float32)


def _run(
    embeddings: InputEmbeddings,
    layers: TorchLayers,
    ids: Tensor,
    layout: SequenceLayout,
    num_layers: int | None = None,
) -> Tensor:
    # (T,) or (T, D) -> (T, D), after the first `num_layers` layers; None for all.
    hidden = embeddings(ids, layout, layers.dtype)
    return layers(hidden, layout, len(layers) if num_layers is None else num_layers)
