"""Protocols of layers, of an encoder and of its first step, which every backend implements; a norm.

B sequences, T tokens, D hidden size.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.encoder.batch import Batch
from embedwell_models.vectors import Doubles, Floats

WeightAndBias = tuple[Floats, Floats]
"""Float32 weight (out, in) and bias (out,)."""


class Linear(Protocol):
    """x W^T + b, then the activation, or plus a residual: (T, in) -> (T, out)."""

    def __call__(self, x: Floats, residual: Floats | None = None) -> Floats: ...


class RowMaximum(Protocol):
    """Compute the maximum of 0 and x W^T + b over each sequence: (T, in) -> (B, out)."""

    def __call__(self, x: Floats, lengths: Sequence[int]) -> Floats: ...


class LinearFactory(Protocol):
    """Factory of linear layers whose output rows depend only on their input row.

    name: name of the linear layer, for factories that treat layers differently.
    """

    def __call__(
        self, weight: Floats, bias: Floats, activation: str = "none", *, name: str = ""
    ) -> Linear:
        """Build a layer. activation: a value of `ACTIVATIONS`."""
        ...


def layer_norm(x: Floats, weight: Floats, bias: Floats, eps: float) -> Floats:
    """Normalise each row to mean 0 and variance 1, then scale and shift: (B, D) -> (B, D).

    Ba et al. 2016, arXiv 1607.06450. A row has the same bytes in every contiguous array. weight,
    bias: (D,). eps: added to the variance.
    """
    y: Floats = x - x.mean(axis=-1, keepdims=True)
    variance = np.square(y).mean(axis=-1, keepdims=True)
    y /= np.sqrt(variance + np.float32(eps))
    y *= weight
    y += bias
    return y


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

    max_concurrent_batches = 1
    """Concurrent forward passes would wait for each other."""
    prefetch_depth = 0
    """The host takes part in every step."""

    def warm(self) -> None:
        """Do nothing: no code is compiled."""
