"""Encoders that run in compiled kernels, with one call for a forward pass or for each layer."""

import ctypes
from collections.abc import Sequence
from ctypes import addressof, c_int64
from dataclasses import dataclass, replace

import numpy as np

from embedwell_models.checkpoint.tables import PlainTable
from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.layer_spec import AttentionSpec, ConvolutionSpec, DeltaNetSpec
from embedwell_models.cpu_backend import abi
from embedwell_models.cpu_backend.abi import (
    DeltaHeads,
    EmbeddingTables,
    ForwardCall,
    Heads,
    KernelConfig,
    Norm,
    Rotation,
)
from embedwell_models.cpu_backend.head_padding import padded_size
from embedwell_models.cpu_backend.input_tables import FactorizedInput, InputTables
from embedwell_models.cpu_backend.layer_weights import (
    NORMS,
    LayerWeights,
    OneLayerWeights,
    delta_heads_of,
    padding_of,
)
from embedwell_models.cpu_backend.linear import ACTIVATIONS, KernelLinearFactory
from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.cpu_backend.relative_positions import (
    Distances,
    PositionBias,
    flat_biases,
    padded_buckets,
    position_bias,
)
from embedwell_models.cpu_backend.rope_cache import RopeCache, distinct_rotations
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import SequentialEncoder
from embedwell_models.encoder.pooling import POOLINGS, pool_batch
from embedwell_models.encoder.threads import process_thread_count
from embedwell_models.positions.schemes import Disentangled
from embedwell_models.vectors import Doubles, Floats


class KernelEncoder:
    """Encoder with float32 activations that multiplies in the precision of its weights."""

    prefetch_depth = 0
    """There is no device besides the CPU."""

    def __init__(
        self,
        inputs: InputTables,
        layers: LayerWeights,
        position_bias: PositionBias | None,
        factorized: FactorizedInput | None = None,
    ) -> None:
        """factorized: None if the tables are as wide as the states."""
        config, self._position_bias = inputs.config, position_bias
        self._inputs, self._layers, self._width = inputs, layers, config.hidden_size
        self._factorized = factorized
        self._rope_caches = [RopeCache(*each) for each in distinct_rotations(config)]
        self._rotations = Rotation * max(1, len(self._rope_caches))  # see Layer.rotation_index
        self._position_table = _position_table(inputs, factorized)
        self._embedding_tables = _embedding_tables(inputs, factorized, self._position_table)
        if factorized is None:
            self._embedding_tables.norm = layers.embedding_norm
        scheme = config.attention.positions
        self._disentangled = scheme if isinstance(scheme, Disentangled) else None
        self._config = _kernel_config(config, layers.gate_size)

    @property
    def max_concurrent_batches(self) -> int:
        """One for each thread: forward passes share only read-only memory."""
        return process_thread_count()

    def states(self, batch: Batch, num_layers: int) -> Floats:
        """Return the hidden states after the first `num_layers` layers: (T, D)."""
        return self.states_after(batch, range(num_layers))

    def states_after(self, batch: Batch, layers: range, rotations: Floats | None = None) -> Floats:
        """Return the hidden states after some layers: (T, D).

        layers: if they are not the first ones, the batch has the states before them as vectors of
        its own. rotations: replace the rotations by positions.
        """
        states = self._empty_states(batch)
        self._run(batch, layers, rotations, states=states.ctypes.data)
        return states

    def rotations(self, angles: Doubles) -> Floats:
        """Return what replaces the rotations by positions, for angles (T, pairs of a head)."""
        (cache,) = self._rope_caches
        return cache.tables_of(angles)

    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        """Pool the last hidden states, concatenating the poolings: (B, poolings * D)."""
        return self._pooled(batch, poolings, range(len(self._layers.layers)))

    def vectors_at(
        self, batch: Batch, angles: Doubles, additions: Sequence[Floats], poolings: Sequence[str]
    ) -> Floats:
        """Pool the last hidden states; for the arguments see EncoderOfVectors."""
        batch, remaining, tables = self._after_additions(batch, angles, additions)
        return self._pooled(batch, poolings, remaining, tables)

    def states_at(self, batch: Batch, angles: Doubles, additions: Sequence[Floats]) -> Floats:
        """Return the last hidden states: (T, D). For the arguments see EncoderOfVectors."""
        batch, remaining, tables = self._after_additions(batch, angles, additions)
        return self.states_after(batch, remaining, tables)

    def _after_additions(
        self, batch: Batch, angles: Doubles, additions: Sequence[Floats]
    ) -> tuple[Batch, range, Floats]:
        """Compute the layers with additions; return the input of the others, and its rotations."""
        tables = self.rotations(angles)
        for index, addition in enumerate(additions):
            states = self.states_after(batch, range(index, index + 1), tables)
            batch = replace(batch, token_vectors=states + addition)
        return batch, range(len(additions), len(self._layers.layers)), tables

    def _pooled(
        self,
        batch: Batch,
        poolings: Sequence[str],
        layers: range,
        rotations: Floats | None = None,
    ) -> Floats:
        indices = (c_int64 * len(poolings))(*map(_pooling_index, poolings))
        vectors = np.empty((len(batch.lengths), len(poolings) * self._width), dtype=np.float32)
        states = self._empty_states(batch) if batch.prompt_token_counts.any() else None
        self._run(
            batch,
            layers,
            rotations,
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

    def _run(
        self, batch: Batch, run: range, tables_of_rotations: Floats | None = None, **outputs: int
    ) -> None:
        # run: the layers. tables_of_rotations: replace the rotations by positions.
        if self._factorized is not None:
            batch = self._factorized(batch)
        elif self._inputs.read_by_rows and batch.token_vectors is None:
            vectors = self._inputs.part("token", batch)
            batch = replace(batch, ids=np.arange(len(batch.ids)), token_vectors=vectors)
        max_length = int(batch.lengths.max())
        relations, tables = self._relations(max_length), self._tables(batch)
        angles = [cache.tables(max_length) for cache in self._rope_caches]
        angles = angles if tables_of_rotations is None else [tables_of_rotations]
        rotations = self._rotations(*map(_rotation, angles))
        rows = batch.ids  # unused without rotations
        if tables_of_rotations is not None:
            rows = np.arange(len(rows))
        elif self._rope_caches:  # if there are several, their rows are equal
            rows = self._rope_caches[0].rows(batch)
        final_norm = self._layers.final_norm if run.stop == len(relations.layers) else Norm()
        call = ForwardCall(
            config=addressof(relations.config),
            layers=addressof(relations.layers) + run.start * ctypes.sizeof(abi.Layer),
            num_layers=len(run),
            final_norm=addressof(final_norm),
            embedding_tables=addressof(tables),
            position_bias=relations.position_bias,
            distances=relations.distances.struct if relations.distances else abi.Distances(),
            rotations=addressof(rotations),
            positions=rows.ctypes.data,
            token_ids=batch.ids.ctypes.data,
            lengths=batch.lengths.ctypes.data,
            key_counts=None if batch.key_counts is None else batch.key_counts.ctypes.data,
            num_sequences=len(batch.lengths),
            **outputs,
        )
        self._layers.run(call)

    def _tables(self, batch: Batch) -> EmbeddingTables:
        vectors = batch.token_vectors
        if vectors is None:
            return self._embedding_tables
        # In a batch with vectors of its own, the ids are row numbers of these vectors.
        tables = EmbeddingTables.from_buffer_copy(self._embedding_tables)
        tables.tokens, tables.vocab_size = vectors.ctypes.data, len(vectors)
        tables.token_scale = 1.0
        return tables

    def _relations(self, length: int) -> "_Relations":
        config, layers, scheme = self._config, self._layers.layers, self._disentangled
        if (scores := self._layers.distance_scores) is not None:
            tables = scores.tables(length)
            config = KernelConfig.from_buffer_copy(config)
            config.buckets = tables.rows
            layers = tables.layers(layers)
            return _Relations(config, layers, tables.length, tables.bias, tables.distances, tables)
        bias = None if self._position_bias is None else flat_biases(self._position_bias(length))
        distances = Distances(length, scheme) if scheme else None
        return _Relations(config, layers, length, bias, distances)


@dataclass(frozen=True)
class _Relations:
    """Relative positions that a call of the kernels reads, for texts of up to `length` tokens.

    bias: see `flat_biases`; None for no biases. owner: owner of the memory of `layers`.
    """

    config: KernelConfig
    layers: ctypes.Array[abi.Layer]
    length: int
    bias: Floats | None
    distances: Distances | None
    owner: object = None

    @property
    def position_bias(self) -> abi.PositionBias:
        return abi.PositionBias(None if self.bias is None else self.bias.ctypes.data, self.length)


def _pooling_index(mode: str) -> int:
    modes = [*POOLINGS]
    if mode not in modes:
        raise ValueError(f"the kernels have no pooling mode {mode!r}; they have {modes}")
    return modes.index(mode)


def _position_table(inputs: InputTables, factorized: FactorizedInput | None) -> Floats:
    # Segment vectors are added to the position table once: a table for each segment.
    positions = np.zeros((1, inputs.config.hidden_size), np.float32)
    if factorized is not None:
        return positions
    if inputs.positions is not None:
        positions = inputs.positions
    segments = inputs.segments[: 2 if inputs.config.two_segments else 1]
    return np.concatenate([positions + segment for segment in segments])


def _embedding_tables(
    inputs: InputTables, factorized: FactorizedInput | None, positions: Floats
) -> EmbeddingTables:
    # Without a norm. positions: see _position_table.
    config, rows = inputs.config, inputs.token_rows
    table = None if factorized else inputs.positions
    return EmbeddingTables(
        tokens=0 if rows is None else rows.ctypes.data,
        positions=positions.ctypes.data,
        position_stride=0 if table is None else config.hidden_size,
        padding_id=-1 if factorized else inputs.padding,
        vocab_size=config.vocab_size,
        num_positions=1 if table is None else len(table),
        token_scale=1 if factorized or inputs.read_by_rows else config.token_scale,
    )


def _kernel_config(config: EncoderConfig, gate_size: int) -> KernelConfig:
    networks = [each.feed_forward for each in config.layers]
    network, scheme = config.feed_forward, config.attention.positions
    return KernelConfig(
        hidden_size=config.hidden_size,
        heads=_most_heads(config),
        delta_heads=_delta_heads(config),
        intermediate_size=network.inner + padding_of(network),
        gate_size=gate_size,
        experts=max((each.experts for each in networks), default=0),
        top=max((each.top for each in networks), default=0),
        buckets=padded_buckets(scheme) if isinstance(scheme, Disentangled) else 0,
        convolves=any(isinstance(each.mixer, ConvolutionSpec) for each in config.layers),
        arrangement=list(NORMS).index(config.arrangement),
        activation=ACTIVATIONS.index(network.activation),
        gated=network.gated,
        causal=config.causal,
        scale=config.attention.scale,
        softcap=config.attention.softcap,
        norm_eps=config.norm_eps,
        inner_norm_eps=network.inner_norm_eps,
    )


def _most_heads(config: EncoderConfig) -> Heads:
    # The largest numbers among the layers, for which the kernels take memory.
    mixers = [config.attention, *(layer.mixer for layer in config.layers)]
    attentions = [mixer for mixer in mixers if isinstance(mixer, AttentionSpec)]
    return Heads(
        max(each.heads for each in attentions),
        max(each.kv_heads for each in attentions),
        max(map(padded_size, attentions)),
        max(each.gated for each in attentions),
    )


def _delta_heads(config: EncoderConfig) -> DeltaHeads:
    mixers = (layer.mixer for layer in config.layers)
    specs = (mixer for mixer in mixers if isinstance(mixer, DeltaNetSpec))
    return next(map(delta_heads_of, specs), DeltaHeads())


def _rotation(tables: Floats) -> Rotation:
    cos, sin = tables
    return Rotation(cos.ctypes.data, sin.ctypes.data)


class LayerByLayerEncoder(SequentialEncoder):
    """Encoder that packs each layer's weights before it computes the layer.

    A forward pass takes as long as loading the model, and not the memory of all layers in float32:
    a model in another precision is calibrated with it, and compared with float32.
    """

    def __init__(self, inputs: InputTables, weights: Weights, isa: str, packing: Packing) -> None:
        """weights: of a model whose layers do not read the embeddings, see `has_input_gates`."""
        config = inputs.config
        bias = position_bias(config, weights)
        factorized = FactorizedInput.of(
            inputs, weights, KernelLinearFactory(isa, Packing("float32"))
        )
        self._layers = OneLayerWeights(config, weights, isa, packing)
        self._inputs = KernelEncoder(inputs, self._layers, bias, factorized)
        self._encoder = KernelEncoder(
            _no_tables(config), self._layers.without_embedding_norm(), bias
        )

    def states(self, batch: Batch, num_layers: int) -> Floats:
        """Return the hidden states after the first `num_layers` layers: (T, D)."""
        states = self._inputs.states(batch, 0)
        for index in range(num_layers):
            self._layers.pack_only(index)
            rows = replace(batch, ids=np.arange(len(states)), token_vectors=states)
            states = self._encoder.states_after(rows, range(index, index + 1))
        return states

    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        """Pool the last hidden states, concatenating the poolings: (B, poolings * D)."""
        return pool_batch(self.states(batch, len(self._layers.layers)), batch, poolings)


def _no_tables(config: EncoderConfig) -> InputTables:
    # Nothing is added to the states of a layer.
    nothing = np.zeros((1, config.hidden_size), dtype=np.float32)
    return InputTables(config, PlainTable(nothing), None, -1, nothing)
