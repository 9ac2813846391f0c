"""Protocols of an encoder and of its first step, which every backend implements.

B sequences, T tokens, D hidden size.
"""

from collections.abc import Sequence
from typing import Protocol

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.encoder.batch import Batch
from embedwell_models.vectors import Doubles, Floats


class Encoder(Protocol):
    """Encoder of token ids to hidden states and pooled vectors."""

    @property
    def max_concurrent_batches(self) -> int:
        """Number of forward passes that can run at once, each on a single thread."""
        ...

    @property
    def prefetch_depth(self) -> int:
        """Number of forward passes that can wait on the device while it computes another."""
        ...

    def states(self, batch: Batch, num_layers: int) -> Floats:
        """Return the hidden states after the first `num_layers` layers: (T, D)."""
        ...

    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        """Pool the last hidden states, concatenating the poolings: (B, poolings * D)."""
        ...

    def warm(self) -> None:
        """Prepare the encoder, so that the first batches need not wait."""
        ...


class EncoderOfVectors(Encoder, Protocol):
    """Encoder that also reads token vectors at positions of several axes."""

    def vectors_at(
        self, batch: Batch, angles: Doubles, additions: Sequence[Floats], poolings: Sequence[str]
    ) -> Floats:
        """Pool the last hidden states, concatenating the poolings: (B, poolings * D).

        batch: with token vectors, whose row numbers are its ids. angles: rotations (T, pairs of a
        head) that replace the rotations by positions. additions: (T, D) each, added to the states
        after the first layers.
        """
        ...

    def states_at(self, batch: Batch, angles: Doubles, additions: Sequence[Floats]) -> Floats:
        """Return the last hidden states: (T, D). For the arguments see `vectors_at`."""
        ...


class Inputs(Protocol):
    """The first step of an encoder."""

    @property
    def config(self) -> EncoderConfig: ...

    def part(self, name: str, batch: Batch) -> Floats:
        """Return the input vectors of the first layer, or one of their summands: (T, D)."""
        ...


class EncoderWithInputs(Encoder, Inputs, Protocol):
    """Encoder that takes its first step itself. device: torch's name of its device."""

    @property
    def device(self) -> object: ...


class SequentialEncoder:
    """Base of encoders that compute one batch after another, such as those that need the GIL."""

    @property
    def max_concurrent_batches(self) -> int:
        """One: concurrent forward passes would wait for each other."""
        return 1

    @property
    def prefetch_depth(self) -> int:
        """Zero: the host takes part in every step."""
        return 0

    def warm(self) -> None:
        """Do nothing: no code is compiled."""
