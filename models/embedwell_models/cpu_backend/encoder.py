"""Encoder that runs in compiled kernels, with one call for a forward pass."""

from collections.abc import Sequence
from ctypes import addressof, c_int64

import numpy as np
import torch
from torch import Tensor

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.layer_spec import AttentionSpec
from embedwell_models.cpu_backend.abi import (
    EmbeddingTables,
    ForwardCall,
    Heads,
    KernelConfig,
    Norm,
    PositionBias,
    Rotation,
)
from embedwell_models.cpu_backend.layer_weights import NORMS, LayerWeights
from embedwell_models.cpu_backend.pooling import pooling_index
from embedwell_models.cpu_backend.prepack import PANEL
from embedwell_models.cpu_backend.rope_cache import RopeCache, distinct_rotations
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.pooling import pool_batch
from embedwell_models.encoder.position_hooks import PositionHooks
from embedwell_models.encoder.threads import process_thread_count
from embedwell_models.torch_backend.encoder import InputEmbeddings
from embedwell_models.torch_backend.linear import ACTIVATIONS
from embedwell_models.vectors import Floats


class KernelEncoder:
    """Encoder with float32 activations that multiplies in the precision of its weights."""

    def __init__(
        self, embeddings: InputEmbeddings, layers: LayerWeights, position_hooks: PositionHooks
    ) -> None:
        """position_hooks: the hooks of the attention, whose bias all layers share."""
        config, self._position_hooks = embeddings.config, position_hooks
        self._embeddings, self._layers, self._width = embeddings, layers, config.hidden_size
        self._rope_caches = [RopeCache(*each) for each in distinct_rotations(config)]
        self._rotations = Rotation * max(1, len(self._rope_caches))  # see Layer.rotation_index
        table = embeddings.positions.table
        # Segment vectors are added to the position table once: a table for each segment.
        positions = torch.zeros(1, config.hidden_size) if table is None else table
        segments = embeddings.segments[: 2 if config.two_segments else 1]
        self._position_table = torch.cat([positions + segment for segment in segments])
        self._embedding_tables = EmbeddingTables(
            tokens=embeddings.tokens.data_ptr(),
            positions=self._position_table.data_ptr(),
            position_stride=0 if table is None else config.hidden_size,
            padding_id=embeddings.positions.padding,
            vocab_size=config.vocab_size,
            num_positions=len(positions),
            token_scale=config.token_scale,
            norm=layers.embedding_norm,
        )
        network = config.feed_forward
        self._config = KernelConfig(
            hidden_size=config.hidden_size,
            heads=_most_heads(config),
            intermediate_size=network.inner,
            gate_size=layers.gate_size,
            arrangement=list(NORMS).index(config.arrangement),
            activation=ACTIVATIONS[network.activation].number,
            gated=network.gated,
            causal=config.causal,
            scale=config.attention.scale,
            norm_eps=config.norm_eps,
        )

    @property
    def max_concurrent_batches(self) -> int:
        """One for each thread: forward passes share only read-only memory."""
        return process_thread_count()

    @property
    def prefetch_depth(self) -> int:
        """Zero: there is no device beside the CPU."""
        return 0

    def states(self, batch: Batch, num_layers: int) -> Floats:
        """Return the hidden states after the first `num_layers` layers: (T, D)."""
        states = self._empty_states(batch)
        self._run(batch, num_layers, states=states.ctypes.data)
        return states

    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        """Pool the last hidden states, concatenating the poolings: (B, poolings * D)."""
        indices = (c_int64 * len(poolings))(*map(pooling_index, poolings))
        vectors = np.empty((len(batch.lengths), len(poolings) * self._width), dtype=np.float32)
        states = self._empty_states(batch) if batch.prompt_token_counts.any() else None
        self._run(
            batch,
            len(self._layers.layers),
            poolings=addressof(indices),
            num_poolings=len(poolings),
            vectors=vectors.ctypes.data,
            states=0 if states is None else states.ctypes.data,
        )
        if states is not None:  # the kernels pool all tokens of a text
            skipping = batch.prompt_token_counts > 0
            vectors[skipping] = pool_batch(states, batch, poolings)[skipping]
        return vectors

    def warm(self) -> None:
        """Do nothing: the kernels need no preparation."""

    def _empty_states(self, batch: Batch) -> Floats:
        return np.empty((len(batch.ids), self._width), dtype=np.float32)

    def _run(self, batch: Batch, num_layers: int, **outputs: int) -> None:
        layers, max_length = self._layers, int(batch.lengths.max())
        bias = self._bias(max_length)
        tables = self._tables(batch)
        angles = [cache.tables(max_length) for cache in self._rope_caches]
        rotations = self._rotations(*map(_rotation, angles))
        caches = self._rope_caches  # if there are several, their rows are equal
        rows = caches[0].rows(batch) if caches else batch.ids  # unused without rotations
        final_norm = layers.final_norm if num_layers == len(layers.layers) else Norm()
        call = ForwardCall(
            config=addressof(self._config),
            layers=addressof(layers.layers),
            num_layers=num_layers,
            final_norm=addressof(final_norm),
            embedding_tables=addressof(tables),
            position_bias=PositionBias(None if bias is None else bias.data_ptr(), max_length),
            rotations=addressof(rotations),
            positions=rows.ctypes.data,
            token_ids=batch.ids.ctypes.data,
            lengths=batch.lengths.ctypes.data,
            key_counts=None if batch.key_counts is None else batch.key_counts.ctypes.data,
            num_sequences=len(batch.lengths),
            **outputs,
        )
        layers.run(call)

    def _tables(self, batch: Batch) -> EmbeddingTables:
        vectors = batch.token_vectors
        if vectors is None:
            return self._embedding_tables
        # In a batch with vectors of its own, the ids are row numbers of these vectors.
        tables = EmbeddingTables.from_buffer_copy(self._embedding_tables)
        tables.tokens, tables.vocab_size = vectors.data_ptr(), len(vectors)
        return tables

    def _bias(self, length: int) -> Tensor | None:
        offsets = self._position_hooks.bias(length)
        if offsets is None:
            return None
        # The kernels read whole vector registers; the last read may go past the table's end.
        return torch.nn.functional.pad(offsets.to(torch.float32).flatten(), (0, PANEL))


def _most_heads(config: EncoderConfig) -> Heads:
    # The largest numbers among the layers, for which the kernels take memory.
    mixers = [config.attention, *(layer.mixer for layer in config.layers)]
    attentions = [mixer for mixer in mixers if isinstance(mixer, AttentionSpec)]
    return Heads(
        max(each.heads for each in attentions),
        max(each.kv_heads for each in attentions),
        max(each.head_size for each in attentions),
    )


def _rotation(tables: Tensor) -> Rotation:
    cos, sin = tables
    return Rotation(cos.data_ptr(), sin.data_ptr())
