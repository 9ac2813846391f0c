"""Vectors of words from characters, by convolutions, highway layers and a projection.

Kim et al. 2015 (arXiv 1508.06615), as in ELMo (Peters et al. 2018, arXiv 1802.05365).

W words, L characters of a word, E dimensions of a character, F filters.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count, takewhile

import numpy as np
import torch
from torch import Tensor

from embedwell_models.classic.elmo.family import BYTES
from embedwell_models.classic.laser.lstm import sigmoid
from embedwell_models.classic.own_layers_encoder import LayerBuilder
from embedwell_models.encoder.batch import Integers
from embedwell_models.torch_backend.linear import Linear

# The bytes of UTF-8 are followed by marks.
TEXT_START, TEXT_STOP, _WORD_START, _WORD_STOP, _PADDING = range(BYTES, BYTES + 5)
ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "tanh": torch.tanh}
_WORDS = 64  # words that are computed at once: 1,024 filters of one word take 200 KB


def spell(ids: Integers, lengths: Integers, max_length: int) -> Integers:
    """Return the characters of words between marks, padded to (W, max_length).

    ids: (T,) ids of the characters of all words. lengths: (W,) characters of each word. Characters
    and marks after max_length are cut off.
    """
    words = np.repeat(np.arange(len(lengths)), lengths)
    places = np.arange(len(ids)) - (lengths.cumsum() - lengths)[words]
    shown = places < max_length - 2
    table = np.full((len(lengths), max_length), _PADDING)
    table[:, 0] = _WORD_START
    table[words[shown], places[shown] + 1] = ids[shown]
    stops = np.minimum(lengths, max_length - 2) + 1
    table[np.arange(len(lengths)), stops] = _WORD_STOP
    return table


@dataclass(frozen=True)
class _Highway:
    """Highway layer: x -> g f(x) + (1 - g) x (Srivastava et al. 2015, arXiv 1505.00387)."""

    transform: Linear
    carry: Linear

    def __call__(self, x: Tensor) -> Tensor:
        gate = sigmoid(self.carry(x))
        return gate * self.transform(x).relu() + (1 - gate) * x


class CharacterCnn:
    """Encoder of words: (W, L) characters -> (W, D).

    If rows of the linear layers are independent, the vector of a word does not depend on other
    words.
    """

    def __init__(self, build: LayerBuilder, activation: str) -> None:
        """build: of token_table (261, E), convolution_0.weight (F, width * E) and so on.

        activation: activation of the convolutions, one of ACTIVATIONS.
        """
        self._characters, self._activation = build.tensor("token_table"), ACTIVATIONS[activation]
        size = self._characters.shape[1]
        self._convolutions = [
            (build.weights[f"{name}.weight"].shape[1] // size, build.linear(name))
            for name in _numbered(build.weights, "convolution")
        ]
        self._highways = [
            _Highway(build.linear(f"{name}.transform"), build.linear(f"{name}.carry"))
            for name in _numbered(build.weights, "highway", ".carry")
        ]
        self._project = build.linear("projection")

    def __call__(self, characters: Integers) -> Tensor:
        """Embed words. characters: see spell."""
        table = torch.from_numpy(characters).to(self._characters.device)
        return torch.cat([self._block(block) for block in torch.split(table, _WORDS)])

    def _block(self, characters: Tensor) -> Tensor:
        vectors = self._characters[characters]
        maxima = [self._convolve(vectors, *parts) for parts in self._convolutions]
        hidden = self._activation(torch.cat(maxima, dim=1))
        for highway in self._highways:
            hidden = highway(hidden)
        return self._project(hidden)

    def _convolve(self, vectors: Tensor, width: int, linear: Linear) -> Tensor:
        # Maximum of each filter over all places, padding included: (W, F).
        windows = vectors.unfold(1, width, 1).mT  # (W, places, width, E)
        rows = windows.flatten(2).flatten(0, 1)
        return linear(rows).view(*windows.shape[:2], -1).amax(dim=1)


def _numbered(weights: Mapping[str, Tensor], name: str, part: str = "") -> list[str]:
    names = (f"{name}_{number}" for number in count())
    return [*takewhile(lambda name: f"{name}{part}.weight" in weights, names)]
