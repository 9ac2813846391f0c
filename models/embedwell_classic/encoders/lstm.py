"""LSTMs over packed sequences, and the encoder of LASER 2, which consists of them.

Hochreiter and Schmidhuber 1997, with forget gates (Gers et al. 2000) and an optional projection of
the state (Sak et al. 2014, arXiv 1402.1128).

B sequences, T tokens, C cells, D width of the states (C without a projection).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from embedwell_classic.encoders.custom_layers import CustomLayersEncoder, LayerBuilder
from embedwell_models.encoder.batch import Batch
from embedwell_models.torch_backend.linear import Linear, LinearFactory

PARTS = ("input.weight", "input.bias", "recurrent.weight")
"""Tensors of a layer: (4 C, in), (4 C,), (4 C, D), with gates in torch's order i, f, g, o."""
PROJECTION = "projection.weight"
"""Tensor (D, C) of a layer that projects its state."""


def time_steps(lengths: Sequence[int], backward: bool) -> list[Tensor]:
    """Return the rows of packed sequences that each step reads, the longest sequence first.

    backward: whether the steps go from the last token of each sequence to the first.
    """
    counts = np.array(lengths)
    order = np.argsort(-counts, kind="stable")
    starts, counts = (counts.cumsum() - counts)[order], counts[order]
    active = [int(np.searchsorted(-counts, -step)) for step in range(counts[0])]
    return [
        torch.from_numpy(starts[:n] + (counts[:n] - 1 - step if backward else step))
        for step, n in enumerate(active)
    ]


@dataclass(frozen=True)
class Clips:
    """Limits of the absolute values of cells and of projected states; infinity for no limit."""

    cell: float = float("inf")
    state: float = float("inf")


_UNLIMITED = Clips()


class LstmLayer:
    """LSTM layer that computes the states of all tokens: (T, in) -> (T, D).

    Each sequence starts with zeros. If the rows of linear layers are independent, the states of a
    sequence do not depend on other sequences.
    """

    def __init__(
        self, weights: Mapping[str, Tensor], linear: LinearFactory, clips: Clips = _UNLIMITED
    ) -> None:
        """weights: by the names of PARTS, and PROJECTION if the state is projected."""
        self._clips = clips
        # sigmoid(x) = (1 + tanh(x / 2)) / 2, see below: one tanh then computes all gates.
        half = weights["input.bias"].new_tensor([0.5, 0.5, 1.0, 0.5])
        self._cells = len(weights["input.bias"]) // 4
        scale = half.repeat_interleave(self._cells)
        weight, bias, recurrent = (weights[part] for part in PARTS)
        self._input: Linear = linear(weight * scale[:, None], bias * scale)
        self._recurrent: Linear = linear(recurrent * scale[:, None], torch.zeros_like(bias))
        projection = weights.get(PROJECTION)
        self._width = self._cells if projection is None else len(projection)
        self._project = None
        if projection is not None:
            self._project = linear(projection, projection.new_zeros(self._width))

    def __call__(self, x: Tensor, steps: Sequence[Tensor]) -> Tensor:
        """Compute the states. steps: see time_steps."""
        gates = self._input(x)
        states = x.new_empty(len(x), self._width)
        cell, state = (x.new_zeros(len(steps[0]), n) for n in (self._cells, self._width))
        for rows in steps:
            count = len(rows)
            preactivations = self._recurrent(state[:count], residual=gates[rows])
            cell, state = self._step(preactivations, cell[:count])
            states[rows] = state
        return states

    def _step(self, preactivations: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        # One step: (B, 4 C) and (B, C) -> the next cells (B, C) and states (B, D).
        keep, forget, new, output = preactivations.tanh().chunk(4, dim=1)
        cell = (forget * 0.5 + 0.5) * cell + (keep * 0.5 + 0.5) * new
        cell = cell.clamp(-self._clips.cell, self._clips.cell)
        state = (output * 0.5 + 0.5) * cell.tanh()
        if self._project is None:
            return cell, state
        return cell, self._project(state).clamp(-self._clips.state, self._clips.state)


def sigmoid(x: Tensor) -> Tensor:
    """Compute 1 / (1 + exp(-x)), with bits that do not depend on a number's place in the array.

    torch.sigmoid uses other code for the last numbers, which do not fill a vector register.
    """
    return (x * 0.5).tanh() * 0.5 + 0.5


def lstm_layers(
    weights: Mapping[str, Tensor], linear: LinearFactory, count: int, clips: Clips = _UNLIMITED
) -> list[list[LstmLayer]]:
    """Build layers of both directions from tensors such as layers.0.forward.input.weight."""

    def of(prefix: str) -> dict[str, Tensor]:
        names = [name for name in weights if name.startswith(prefix)]
        return {name.removeprefix(prefix): weights[name] for name in names}

    return [
        [
            LstmLayer(of(f"layers.{index}.{direction}."), linear, clips)
            for direction in ("forward", "backward")
        ]
        for index in range(count)
    ]


class BiLstmEncoder(CustomLayersEncoder):
    """Encoder with a token table and layers that read the states of both directions (LASER)."""

    def __init__(self, build: LayerBuilder) -> None:
        super().__init__(build)
        self._table = build.tensor("token_table")
        self._layers = lstm_layers(build.weights, build.factory, self.config.num_layers)

    def hidden(self, batch: Batch, num_layers: int) -> Tensor:
        """Compute the concatenated forward and backward states: (T, D)."""
        lengths = batch.lengths.tolist()
        steps = [time_steps(lengths, backward) for backward in (False, True)]
        hidden = self._table[torch.from_numpy(batch.ids).to(self.device)]
        for layer in self._layers[:num_layers]:
            both = zip(layer, steps, strict=True)
            hidden = torch.cat([direction(hidden, rows) for direction, rows in both], dim=1)
        return hidden
