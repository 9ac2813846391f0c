"""ELMo: forward and backward language models over vectors of words from characters.

Peters et al. 2018 (arXiv 1802.05365).

B texts, T token ids, W words, S words and the marks around each text, D width of a direction.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from embedwell_models.classic.elmo.character_cnn import (
    TEXT_START,
    TEXT_STOP,
    CharacterCnn,
    spell,
)
from embedwell_models.classic.elmo.family import BYTES
from embedwell_models.classic.laser.lstm import Clips, lstm_layers, time_steps
from embedwell_models.classic.own_layers_encoder import (
    LayerBuilder,
    OwnLayersEncoder,
    PooledStates,
)
from embedwell_models.encoder.batch import Batch, Integers
from embedwell_models.vectors import Floats


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


class ElmoEncoder(OwnLayersEncoder):
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

    def part(self, name: str, batch: Batch) -> Floats:
        """Return the vectors of words, concatenated with themselves: (T, 2 D)."""
        return self.states(batch, 0)

    def hidden(self, batch: Batch, num_layers: int) -> Tensor:
        """Compute the states of both directions for each id: (T, 2 D)."""
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
