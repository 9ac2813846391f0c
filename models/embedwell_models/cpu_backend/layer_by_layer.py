"""Encoder in float32 that has the weights of one layer in memory at a time."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.cpu_backend.encoder import KernelEncoder
from embedwell_models.cpu_backend.factorized_input import FactorizedInput
from embedwell_models.cpu_backend.input_tables import InputTables
from embedwell_models.cpu_backend.layer_weights import OneLayerWeights
from embedwell_models.cpu_backend.linear import KernelLinearFactory
from embedwell_models.cpu_backend.position_bias import position_bias
from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.pooling import pool_batch
from embedwell_models.tables.table import PlainTable
from embedwell_models.vectors import Floats


class LayerByLayerEncoder:
    """Encoder that packs each layer's weights before it computes the layer.

    A forward pass takes as long as loading the model, and not the memory of all layers in float32:
    a model in another precision is calibrated with it, and compared with float32.
    """

    max_concurrent_batches, prefetch_depth = 1, 0

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

    def warm(self) -> None:
        """Do nothing: the kernels need no preparation."""


def _no_tables(config: EncoderConfig) -> InputTables:
    # Nothing is added to the states of a layer.
    nothing = np.zeros((1, config.hidden_size), dtype=np.float32)
    return InputTables(config, PlainTable(nothing), None, -1, nothing)
