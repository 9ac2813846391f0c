"""Encoder whose last states pass through a function, before the pooling.

Such are the attention to trained latents of NV-Embed (Lee et al. 2024, arXiv 2405.17428), and
layers of a classifier that come before its pooling. B sequences, T tokens, D hidden size.
"""

from collections.abc import Callable

from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import Encoder, EncoderWithHead
from embedwell_models.vectors import Floats

StateFunction = Callable[[Floats], Floats]
"""Function from the last state of each token to the state that is pooled: (T, D) -> (T, D)."""


class StateFunctionEncoder(EncoderWithHead):
    """Encoder whose last states pass through a function."""

    def __init__(self, encoder: Encoder, function: StateFunction, num_layers: int) -> None:
        """num_layers: the number of layers of the inner encoder."""
        super().__init__(encoder, num_layers)
        self._function = function

    def states(self, batch: Batch, num_layers: int) -> Floats:
        """Return the states after `num_layers` layers; after all layers, those of the function.

        -> (T, D).
        """
        states = super().states(batch, num_layers)
        return self._function(states) if num_layers == self._num_layers else states
