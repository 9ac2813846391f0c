"""Encoder whose last states attend to trained latents, before the pooling.

NV-Embed: Lee et al. 2024, arXiv 2405.17428. B sequences, T tokens, D hidden size.
"""

from collections.abc import Callable, Sequence

from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import Encoder, EncoderWithHead
from embedwell_models.encoder.pooling import pool_batch
from embedwell_models.vectors import Floats

LatentAttention = Callable[[Floats], Floats]
"""Function from the last state of each token to its pooled state: (T, D) -> (T, D)."""


class LatentAttentionEncoder(EncoderWithHead):
    """Encoder whose last states attend to trained latents."""

    def __init__(self, encoder: Encoder, attention: LatentAttention, num_layers: int) -> None:
        """num_layers: the number of layers of the inner encoder."""
        super().__init__(encoder, num_layers)
        self._attention = attention

    def states(self, batch: Batch, num_layers: int) -> Floats:
        """Return the states after `num_layers` layers; after all layers, with latent attention.

        -> (T, D).
        """
        states = super().states(batch, num_layers)
        return self._attention(states) if num_layers == self._num_layers else states

    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        """Pool the last states, concatenating the poolings: (B, poolings * D)."""
        return pool_batch(self.states(batch, self._num_layers), batch, poolings)
