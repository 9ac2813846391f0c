"""Encoder whose states are a weighted mean of those after several layers.

B sequences, T tokens, D hidden size.
"""

from functools import reduce
from pathlib import Path

import numpy as np

from embedwell_models.checkpoint import weights
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import Encoder, EncoderWithHead
from embedwell_models.errors import ModelError
from embedwell_models.model_files.layer_weights import LayerWeights
from embedwell_models.vectors import Floats

_TENSOR = "layer_weights"


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


def read_layer_weights(folder: Path, module: LayerWeights) -> Floats:
    """Read the weights of a model's folder; raises ModelError for others than its options say."""
    path = folder / module.path / "model.safetensors"
    numbers = weights.read_file(path, {_TENSOR: (module.count,)})[_TENSOR]
    if not numbers.sum():
        raise ModelError(f"{path}: the sum of {_TENSOR} is 0")
    return numbers
