"""Encoder of bidirectional LSTMs on torch, over packed sequences without padding.

T tokens, D width of the states.
"""

from collections.abc import Mapping
from typing import Self

import torch
from torch import Tensor

from embedwell_models.classic.laser.lstm import LstmLayer, layer_weights, time_steps
from embedwell_models.classic.own_layers_encoder import OwnLayersEncoder
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.encoder.batch import Batch
from embedwell_models.model_description import ModelDescription
from embedwell_models.torch_backend.linear import LinearFactory
from embedwell_models.vectors import Floats

DIRECTIONS = ("forward", "backward")


class BiLstmEncoder(OwnLayersEncoder):
    """Encoder with a token table and layers that read the states of both directions (LASER)."""

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

    @classmethod
    def build(
        cls,
        description: ModelDescription,
        tensors: Mapping[str, Tensor],
        linear: LinearFactory,
        device: torch.device,
    ) -> Self:
        """Build the encoder from its weights, with the options in the folder's config.json."""
        return cls(description.spec.config, tensors, linear, device)

    def part(self, name: str, batch: Batch) -> Floats:
        """Return the rows of the table for the token ids: (T, embedding size)."""
        return self.states(batch, 0)

    def hidden(self, batch: Batch, num_layers: int) -> Tensor:
        """Compute the concatenated forward and backward states: (T, D)."""
        lengths = batch.lengths.tolist()
        steps = [time_steps(lengths, backward) for backward in (False, True)]
        hidden = self.tokens[torch.from_numpy(batch.ids).to(self.device)]
        for layer in self._layers[:num_layers]:
            both = zip(layer, steps, strict=True)
            hidden = torch.cat([direction(hidden, rows) for direction, rows in both], dim=1)
        return hidden
