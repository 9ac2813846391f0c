"""ELMo: forward and backward language models over vectors of words from characters.

Peters et al. 2018 (arXiv 1802.05365); the vectors of words as in Kim et al. 2015 (arXiv
1508.06615), by convolutions, highway layers and a projection.

B texts, T token ids, W words, L characters of a word, E dimensions of a character, F filters, S
words and the marks around each text, D width of a direction.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, takewhile

import numpy as np
import torch
from torch import Tensor

from embedwell_classic.encoders.custom_layers import (
    CustomLayersEncoder,
    LayerBuilder,
    PooledStates,
)
from embedwell_classic.encoders.lstm import Clips, lstm_layers, sigmoid, time_steps
from embedwell_classic.families.elmo import BYTES
from embedwell_models.encoder.batch import Batch, Integers
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


@dataclass(frozen=True)
class _Words:
    """Words of a batch. counts: (B,) words of each text. lengths: (W,) ids of each word.

    prompt_counts: (B,) number of first words that the pooling leaves out.
    """

    counts: Integers
    lengths: Integers
    prompt_counts: Integers

    @classmethod
    def of(cls, batch: Batch) -> "_Words":
        """Find the words: an id below BYTES and the first id of a text start a word."""
        begins = (batch.ids < BYTES) | (batch.positions == 0)
        starts = np.flatnonzero(begins)
        texts = np.repeat(np.arange(len(batch.lengths)), batch.lengths)
        in_prompt = batch.positions < batch.prompt_token_counts[texts]
        size = len(batch.lengths)
        return cls(
            np.bincount(texts[starts], minlength=size),
            np.diff(starts, append=len(batch.ids)),
            np.bincount(texts[starts][in_prompt[starts]], minlength=size),
        )


class ElmoEncoder(CustomLayersEncoder):
    """ELMo on torch. Ids are the bytes of words, plus BYTES for all but the first byte of a word.

    All ids of a word have its states. The last layer is the weighted sum of all other layers and of
    the words' vectors.
    """

    def __init__(self, build: LayerBuilder) -> None:
        super().__init__(build)
        get = build.options.get
        self._max_characters = get("max_characters", 50)
        self._characters = CharacterCnn(build, get("activation", "relu"))
        self._mix = build.weights["mix"].tolist()
        clips = Clips(*(get(name, float("inf")) for name in ("cell_clip", "state_clip")))
        num_layers = self.config.num_layers - 1
        self._layers = lstm_layers(build.weights, build.factory, num_layers, clips)

    def hidden(self, batch: Batch, num_layers: int) -> Tensor:
        """Compute the states of both directions for each id, at first those of words: (T, 2 D)."""
        words = _Words.of(batch)
        states = self._states(batch, words, num_layers)
        ids = np.repeat(np.arange(len(states)), words.lengths)
        return states[torch.from_numpy(ids).to(self.device)]

    def pooled_states(self, batch: Batch) -> PooledStates:
        """Compute the last states of words, one for each word: (W, 2 D)."""
        words = _Words.of(batch)
        states = self._states(batch, words, self.config.num_layers)
        return PooledStates(states, words.counts.tolist(), words.prompt_counts)

    def _states(self, batch: Batch, words: _Words, num_layers: int) -> Tensor:
        lengths = words.counts + 2
        vectors, shown = self._vectors(batch, words, lengths)
        layers = [torch.cat([vectors, vectors], dim=1)]
        layers += self._directions(vectors, lengths.tolist(), num_layers)
        if num_layers < self.config.num_layers:
            states: Tensor = layers[num_layers][shown]
            return states
        first, *others = zip(layers, self._mix, strict=True)
        mixed: Tensor = first[0] * first[1]
        for layer, weight in others:
            mixed = mixed + layer * weight
        of_words: Tensor = mixed[shown]
        return of_words

    def _vectors(self, batch: Batch, words: _Words, lengths: Integers) -> tuple[Tensor, Tensor]:
        # Vectors (S, D) of words between the marks of their texts; (S,) whether a vector is of a
        # word.
        marks = np.array([TEXT_START, TEXT_STOP])
        ids = np.concatenate([batch.ids % BYTES, marks])
        spelled = spell(ids, np.append(words.lengths, [1, 1]), self._max_characters)
        stops = lengths.cumsum() - 1
        rows = np.empty(lengths.sum(), dtype=np.int64)
        is_word = np.ones(len(rows), dtype=np.bool_)
        is_word[stops] = is_word[stops - lengths + 1] = False
        rows[stops - lengths + 1], rows[stops] = len(spelled) - 2, len(spelled) - 1
        rows[is_word] = np.arange(len(spelled) - 2)
        vectors = self._characters(spelled)
        shown = torch.from_numpy(is_word).to(self.device)
        return vectors[torch.from_numpy(rows).to(self.device)], shown

    def _directions(self, vectors: Tensor, lengths: Sequence[int], num_layers: int) -> list[Tensor]:
        # States after each layer of two independent language models: (S, 2 D).
        steps = [time_steps(lengths, backward) for backward in (False, True)]
        both, layers = [vectors, vectors], []
        for index, pair in enumerate(self._layers[:num_layers]):
            outputs = [layer(x, rows) for layer, x, rows in zip(pair, both, steps, strict=True)]
            if index:  # skip connection
                outputs = [new + old for new, old in zip(outputs, both, strict=True)]
            both = outputs
            layers.append(torch.cat(both, dim=1))
        return layers
