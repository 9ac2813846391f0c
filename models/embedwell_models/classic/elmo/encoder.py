"""ELMo: forward and backward language models over vectors of words from characters.

Peters et al. 2018 (arXiv 1802.05365).

B texts, T token ids, W words, S words and the marks around each text, D width of a direction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from embedwell_models.classic.elmo.character_cnn import (
    BYTES,
    TEXT_START,
    TEXT_STOP,
    CharacterCnn,
    spell,
)
from embedwell_models.classic.laser.encoder import DIRECTIONS
from embedwell_models.classic.laser.lstm import Clips, LstmLayer, layer_weights, time_steps
from embedwell_models.classic.own_layers_encoder import OwnLayersEncoder, PooledStates
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.encoder.batch import Batch, Integers
from embedwell_models.model_description import ModelDescription
from embedwell_models.torch_backend.linear import LinearFactory
from embedwell_models.vectors import Floats


@dataclass(frozen=True)
class ElmoOptions:
    """Options of ELMo. max_characters: of a word, with marks. activation: of the convolutions."""

    max_characters: int
    activation: str
    clips: Clips


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

    def __init__(
        self,
        config: EncoderConfig,
        options: ElmoOptions,
        weights: Mapping[str, Tensor],
        linear: LinearFactory,
        device: torch.device,
    ) -> None:
        """linear: of rows that do not depend on each other, on a CPU."""
        super().__init__(config, device)
        self._max_characters = options.max_characters
        self._characters = CharacterCnn(weights, linear, options.activation, device)
        self._mix = weights["mix"].tolist()
        self._layers = [
            [
                LstmLayer(
                    layer_weights(weights, f"layers.{index}.{direction}."), linear, options.clips
                )
                for direction in DIRECTIONS
            ]
            for index in range(config.num_layers - 1)
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
        file = JsonConfig(description.encoder / "config.json")
        clips = Clips(*(file.get(name, float("inf")) for name in ("cell_clip", "state_clip")))
        options = ElmoOptions(file.get("max_characters", 50), file.get("activation", "relu"), clips)
        return cls(description.spec.config, options, tensors, linear, device)

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
