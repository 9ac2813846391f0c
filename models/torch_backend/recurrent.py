"""Encoders of bidirectional LSTMs on torch, over packed sequences without padding.

B sequences, T tokens, D width of the states.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.config.encoder_config import EncoderConfig
from models.encoder.batch import Batch, Integers
from models.encoder.encoder import SequentialEncoder
from models.encoder.pooling import pool
from models.encoder.sequence_layout import SequenceLayout
from models.torch_backend.linear import LinearFactory
from models.torch_backend.lstm import LstmLayer, layer_weights, time_steps
from models.vectors import Floats

DIRECTIONS = ("forward", "backward")


@dataclass(frozen=True)
class PooledStates:
    """States (rows, D) that are pooled, on the device. lengths: rows of each of B texts.

    prompt_counts: (B,) how many first rows of each are left out.
    """

    states: Tensor
    lengths: Sequence[int]
    prompt_counts: Integers


class RecurrentEncoder(SequentialEncoder, ABC):
    """An encoder whose layers read the tokens of a text one after another, in float32."""

    def __init__(self, config: EncoderConfig, device: torch.device) -> None:
        self.config, self.device = config, device

    @abstractmethod
    def hidden(self, batch: Batch, num_layers: int) -> Tensor:
        """Compute the states after the first `num_layers` layers, on the device: (T, D)."""

    @abstractmethod
    def part(self, name: str, batch: Batch) -> Floats:
        """Return the vectors of tokens that the first layer reads."""

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


class BiLstmEncoder(RecurrentEncoder):
    """A table of token vectors, and layers that read the states of both directions (LASER)."""

    def __init__(
        self,
        config: EncoderConfig,
        weights: Mapping[str, Tensor],
        linear: LinearFactory,
        device: torch.device,
    ) -> None:
        """linear: of rows that do not depend on each other, on a CPU."""
        super().__init__(config, device)
        self.tokens = weights["token_table"].to(device)
        self._layers = [
            [
                LstmLayer(layer_weights(weights, f"layers.{index}.{direction}."), linear)
                for direction in DIRECTIONS
            ]
            for index in range(config.num_layers)
        ]

    def part(self, name: str, batch: Batch) -> Floats:
        """Return the rows of the table for the token ids: (T, embedding size)."""
        return self.states(batch, 0)

    def hidden(self, batch: Batch, num_layers: int) -> Tensor:
        """Compute the states of both directions, the forward one's first: (T, D)."""
        lengths = batch.lengths.tolist()
        steps = [time_steps(lengths, backward) for backward in (False, True)]
        hidden = self.tokens[torch.from_numpy(batch.ids).to(self.device)]
        for layer in self._layers[:num_layers]:
            both = zip(layer, steps, strict=True)
            hidden = torch.cat([direction(hidden, rows) for direction, rows in both], dim=1)
        return hidden
