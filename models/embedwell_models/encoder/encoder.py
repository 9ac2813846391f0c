"""The protocol of an encoder, which every backend implements.

B sequences, T tokens, D hidden size.
"""

from collections.abc import Sequence
from typing import Protocol

from embedwell_models.encoder.batch import Batch
from embedwell_models.vectors import Floats


class Encoder(Protocol):
    """Computes hidden states and pooled vectors from token ids."""

    @property
    def max_concurrent_batches(self) -> int:
        """Number of forward passes that can run at once, each on a single thread."""
        ...

    @property
    def prefetch_depth(self) -> int:
        """Number of forward passes that can wait on the device for the one that it computes."""
        ...

    def states(self, batch: Batch, num_layers: int) -> Floats:
        """Return the hidden states after the first `num_layers` layers: (T, D)."""
        ...

    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        """Pool the last hidden states, concatenating the poolings: (B, poolings * D)."""
        ...

    def warm(self) -> None:
        """Prepare what the first batches would otherwise wait for."""
        ...


class SequentialEncoder:
    """Base of encoders that compute one batch after another, as Python holds the GIL meanwhile."""

    @property
    def max_concurrent_batches(self) -> int:
        """One: concurrent forward passes would wait for the GIL at every operation."""
        return 1

    @property
    def prefetch_depth(self) -> int:
        """None: the host takes part in every step."""
        return 0


class EncoderWithHead(Encoder):
    """Base of encoders that compute something of the states of another one."""

    def __init__(self, encoder: Encoder, num_layers: int) -> None:
        """num_layers: all of the encoder beneath."""
        self._encoder, self._num_layers = encoder, num_layers

    @property
    def max_concurrent_batches(self) -> int:
        """As of the encoder beneath."""
        return self._encoder.max_concurrent_batches

    @property
    def prefetch_depth(self) -> int:
        """As of the encoder beneath."""
        return self._encoder.prefetch_depth

    def states(self, batch: Batch, num_layers: int) -> Floats:
        """Return the hidden states after the first `num_layers` layers: (T, D)."""
        return self._encoder.states(batch, num_layers)

    def warm(self) -> None:
        """Prepare the encoder beneath."""
        self._encoder.warm()
