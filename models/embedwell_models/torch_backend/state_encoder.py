"""Base of encoders with layers of their own on torch, over packed sequences without padding.

B sequences, T tokens, D width of the states.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.encoder.batch import Batch, Integers
from embedwell_models.encoder.encoder import SequentialEncoder
from embedwell_models.encoder.pooling import pool
from embedwell_models.encoder.sequence_layout import SequenceLayout
from embedwell_models.vectors import Floats


@dataclass(frozen=True)
class PooledStates:
    """States (rows, D) that are pooled, on the device. lengths: rows of each of B texts.

    prompt_counts: (B,) how many first rows of each are left out.
    """

    states: Tensor
    lengths: Sequence[int]
    prompt_counts: Integers


class StateEncoder(SequentialEncoder, ABC):
    """An encoder in float32; subclasses compute the states after each of its layers."""

    def __init__(self, config: EncoderConfig, device: torch.device) -> None:
        self.config, self.device = config, device

    @abstractmethod
    def hidden(self, batch: Batch, num_layers: int) -> Tensor:
        """Compute the states after the first `num_layers` layers, on the device: (T, D)."""

    @abstractmethod
    def part(self, name: str, batch: Batch) -> Floats:
        """Return the vectors of tokens that the first layer reads, or one summand of them."""

    def pooled_states(self, batch: Batch) -> PooledStates:
        """Compute the last states of what is pooled: the tokens."""
        states = self.hidden(batch, self.config.num_layers)
        return PooledStates(states, batch.lengths.tolist(), batch.prompt_token_counts)

    @torch.inference_mode()
    def states(self, batch: Batch, num_layers: int) -> Floats:
        """Return the states after the first `num_layers` layers: (T, D)."""
        states: Floats = self.hidden(batch, num_layers).cpu().numpy()
        return states

    @torch.inference_mode()
    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        """Pool the last states, concatenating the poolings: (B, poolings * D)."""
        rows = self.pooled_states(batch)
        layout = SequenceLayout(rows.lengths, self.device)
        pooled = pool(rows.states, layout, poolings, torch.from_numpy(rows.prompt_counts))
        vectors: Floats = pooled.cpu().numpy()
        return vectors

    def warm(self) -> None:
        """Do nothing: no code is compiled."""
