"""Encoder whose last states pass through a function on their device, before the pooling.

B sequences, T tokens, D hidden size.
"""

from collections.abc import Callable, Sequence

from torch import Tensor

from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoders_with_heads import EncoderWithHead
from embedwell_models.torch_backend.encoder import TorchEncoder
from embedwell_models.torch_backend.pooling import pool
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.vectors import Floats


class DeviceStateFunctionEncoder(EncoderWithHead):
    """Encoder whose states stay on the device: the host receives only the pooled vectors."""

    def __init__(
        self, encoder: TorchEncoder, function: Callable[[Tensor], Tensor], num_layers: int
    ) -> None:
        """function: of the last states of tokens, (T, D) -> (T, D) in float32.

        num_layers: the number of layers of the inner encoder.
        """
        super().__init__(encoder, num_layers)
        self._states, self._function = encoder, function

    def states(self, batch: Batch, num_layers: int) -> Floats:
        """Return the states after `num_layers` layers; after all, those of the function: (T, D)."""
        if num_layers < self._num_layers:
            return super().states(batch, num_layers)
        return self._states.apply(batch, self._of_tokens)

    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        """Pool the last states, concatenating the poolings: (B, poolings * D)."""

        def pooled(hidden: Tensor, layout: SequenceLayout) -> Tensor:
            return pool(self._of_tokens(hidden, layout), layout, poolings)

        return self._states.apply(batch, pooled)

    def _of_tokens(self, hidden: Tensor, layout: SequenceLayout) -> Tensor:
        return self._function(hidden[: layout.tokens])
