"""Encoder of bidirectional LSTMs on torch, over packed sequences without padding.

T tokens, D width of the states.
"""

import torch
from torch import Tensor

from embedwell_models.classic.laser.lstm import lstm_layers, time_steps
from embedwell_models.classic.own_layers_encoder import LayerBuilder, OwnLayersEncoder
from embedwell_models.encoder.batch import Batch
from embedwell_models.vectors import Floats


class BiLstmEncoder(OwnLayersEncoder):
    """Encoder with a token table and layers that read the states of both directions (LASER)."""

    def __init__(self, build: LayerBuilder) -> None:
        super().__init__(build)
        self._table = build.tensor("token_table")
        self._layers = lstm_layers(build.weights, build.factory, self.config.num_layers)

    def part(self, name: str, batch: Batch) -> Floats:
        """Return the rows of the table for the token ids: (T, embedding size)."""
        return self.states(batch, 0)

    def hidden(self, batch: Batch, num_layers: int) -> Tensor:
        """Compute the concatenated forward and backward states: (T, D)."""
        lengths = batch.lengths.tolist()
        steps = [time_steps(lengths, backward) for backward in (False, True)]
        hidden = self._table[torch.from_numpy(batch.ids).to(self.device)]
        for layer in self._layers[:num_layers]:
            both = zip(layer, steps, strict=True)
            hidden = torch.cat([direction(hidden, rows) for direction, rows in both], dim=1)
        return hidden
