"""Encoders that compute with the states of another encoder.

B sequences, T tokens, D hidden size.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path

import numpy as np

from embedwell_models.checkpoint import weights
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import Encoder
from embedwell_models.encoder.pooling import pool_batch
from embedwell_models.errors import ModelError
from embedwell_models.model_files.pooling import LayerMix
from embedwell_models.vectors import Floats

StateFunction = Callable[[Floats], Floats]
"""Function from the last state of each token to the state that is pooled: (T, D) -> (T, D)."""

_LAYER_WEIGHTS = "layer_weights"


class EncoderWithHead(Encoder):
    """Base of encoders that apply a head to the states of another encoder."""

    def __init__(self, encoder: Encoder, num_layers: int) -> None:
        """num_layers: the number of layers of the inner encoder."""
        self._encoder, self._num_layers = encoder, num_layers

    @property
    def max_concurrent_batches(self) -> int:
        """Same as for the inner encoder."""
        return self._encoder.max_concurrent_batches

    @property
    def prefetch_depth(self) -> int:
        """Same as for the inner encoder."""
        return self._encoder.prefetch_depth

    def states(self, batch: Batch, num_layers: int) -> Floats:
        """Return the hidden states after the first `num_layers` layers: (T, D)."""
        return self._encoder.states(batch, num_layers)

    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        """Pool the last states, concatenating the poolings: (B, poolings * D)."""
        return pool_batch(self.states(batch, self._num_layers), batch, poolings)

    def warm(self) -> None:
        """Prepare the inner encoder."""
        self._encoder.warm()


class StateFunctionEncoder(EncoderWithHead):
    """Encoder whose last states pass through a function, before the pooling.

    Such are the attention to trained latents of NV-Embed (Lee et al. 2024, arXiv 2405.17428), and
    layers of a classifier that come before its pooling.
    """

    def __init__(self, encoder: Encoder, function: StateFunction, num_layers: int) -> None:
        """num_layers: the number of layers of the inner encoder."""
        super().__init__(encoder, num_layers)
        self._function = function

    def states(self, batch: Batch, num_layers: int) -> Floats:
        """Return the states after `num_layers` layers; after all layers, the function of them.

        -> (T, D).
        """
        states = super().states(batch, num_layers)
        return self._function(states) if num_layers == self._num_layers else states


class LayerMixEncoder(EncoderWithHead):
    """Encoder whose last states are a mean of the states after its last layers.

    Each of these is computed from the start, so that a text takes the time of several. On a GPU,
    TorchEncoder computes the mean in one pass.
    """

    def __init__(self, encoder: Encoder, layer_weights: Floats, num_layers: int) -> None:
        """layer_weights: of the states after the last layers, the last one's at the end.

        num_layers: the number of layers of the inner encoder.
        """
        super().__init__(encoder, num_layers)
        self._weights = layer_weights

    def states(self, batch: Batch, num_layers: int) -> Floats:
        """Return the states after `num_layers` layers; after all layers, the mean: (T, D)."""
        if num_layers < self._num_layers:
            return super().states(batch, num_layers)
        states, first = self._encoder.states, num_layers + 1 - len(self._weights)
        weighted = (w * states(batch, layer) for layer, w in enumerate(self._weights, first))
        mean: Floats = reduce(np.add, weighted) / self._weights.sum()
        return mean


def load_layer_weights(folder: Path, module: LayerMix) -> Floats:
    """Read the weights of a model's folder; raises ModelError for others than its options say."""
    path = folder / module.path / "model.safetensors"
    numbers = weights.read_file(path, {_LAYER_WEIGHTS: (module.count,)})[_LAYER_WEIGHTS]
    if not numbers.sum():
        raise ModelError(f"{path}: the sum of {_LAYER_WEIGHTS} is 0")
    return numbers
