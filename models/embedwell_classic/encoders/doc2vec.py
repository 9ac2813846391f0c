"""Doc2Vec: inference of the vector of a text by gradient descent.

Le and Mikolov 2014 (arXiv 1405.4053) with negative sampling (Mikolov et al. 2013, arXiv 1310.4546),
both as in gensim. The code is numpy on a CPU, because a step is a few products of short vectors.
`convert.gensim_models` writes the folders.

B texts, T token ids, V words, D dimensions, K negative words of a step.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from embedwell_models.checkpoint import weights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.encoder.batch import Batch, Integers
from embedwell_models.encoder.device import Device
from embedwell_models.encoder.encoder import SequentialEncoder
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats

_LARGEST = 6.0  # largest absolute score that is learned from
_POINTS = 1000
_PER_UNIT = _POINTS // 6 // 2  # integer divisions, as in gensim
_SIGMOID = (1 / (1 + np.exp(-np.linspace(-_LARGEST, _LARGEST, _POINTS, False)))).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class Inference:
    """Options of the inference, which equal the options of the training.

    memory: whether the mean of the text's vector and the vectors of words around a word predicts
    the word (PV-DM); otherwise the text's vector predicts it (PV-DBOW). window: words on each side.
    shrink: whether each word draws its own window up to `window`. negative: K. alpha, min_alpha:
    learning rates of the first and the last epoch.
    """

    memory: bool
    window: int
    shrink: bool
    negative: int
    epochs: int
    alpha: float
    min_alpha: float


@dataclass(frozen=True)
class WordTables:
    """Tables of words. inputs, outputs: (V, D) vectors of predicting and of predicted words.

    keep: (V,) probability that an occurrence of a word is used in an epoch. noise: (V,) cumulative
    probabilities of the negative words.
    """

    inputs: Floats
    outputs: Floats
    keep: Floats
    noise: Floats


def step(context: Floats, targets: Floats, rate: float) -> Floats:
    """Return the gradient step of the context that predicts a word: (D,).

    The step is the sum of rate * (label - sigmoid(u . h)) * u over the rows u of `targets` (1 + K,
    D). The first row belongs to the predicted word and has the label 1. h: the context (D,). As in
    gensim, scores beyond 6 are ignored, and the sigmoid is read from 1,000 values, for a slightly
    lower score.
    """
    # No matrix product, whose sums may depend on where the arrays lie in memory.
    scores = (targets * context).sum(axis=1)
    points = ((scores + _LARGEST) * _PER_UNIT).clip(0, _POINTS - 1).astype(np.int64)
    errors = -_SIGMOID[points]
    errors[0] += 1
    errors[np.abs(scores) >= _LARGEST] = 0
    factors = (np.float32(rate) * errors).astype(np.float32)
    gradient: Floats = (factors[:, None] * targets).sum(axis=0)
    return gradient


class Doc2VecEncoder(SequentialEncoder):
    """Encoder that infers vectors of texts with a random generator seeded by the text."""

    def __init__(self, config: EncoderConfig, options: Inference, tables: WordTables) -> None:
        self.config, self.device = config, Device("cpu")
        self._options, self._tables = options, tables

    @classmethod
    def load(cls, description: ModelDescription, device: str, cpu_features: frozenset[str]) -> Self:
        """Load the tables of a folder; raises ModelError, also if the operator sets a pooling."""
        if description.recipe.pooling_source == "setting":
            raise ModelError(
                f"{description.path}: Doc2Vec infers the vector of a text and has no pooling; "
                "leave it 'auto'"
            )
        file = JsonConfig(description.encoder / "config.json")
        options = Inference(
            memory=file.get("memory", True),
            window=int(file.get("window", 5)),
            shrink=file.get("shrink_windows", True),
            negative=int(file.get("negative", 5)),
            epochs=int(file.get("epochs", 10)),
            alpha=file.get("alpha", 0.025),
            min_alpha=file.get("min_alpha", 0.0001),
        )
        tensors = weights.load(description.encoder, description.spec)
        names = ("token_table", "output_table", "keep", "noise")
        tables = WordTables(*(tensors[name] for name in names))
        return cls(description.spec.config, options, tables)

    def part(self, name: str, batch: Batch) -> Floats:
        """Return the vectors of predicting words, zeros for an unknown word: (T, D)."""
        known = batch.ids < self.config.num_vectors
        vectors = np.zeros((len(batch.ids), self.config.hidden_size), dtype=np.float32)
        vectors[known] = self._tables.inputs[batch.ids[known]]
        return vectors

    def states(self, batch: Batch, num_layers: int) -> Floats:
        """Return the vectors of words, because there are no layers: (T, D)."""
        return self.part("token", batch)

    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        """Infer the vector of each text, zeros for a text without known words: (B, D)."""
        texts = zip(batch.split(batch.ids), batch.prompt_token_counts, strict=True)
        return np.stack([self.infer(ids[count:]) for ids, count in texts])

    def infer(self, ids: Integers) -> Floats:
        """Infer the vector of a text from its words: (D,)."""
        ids = ids[ids < self.config.num_vectors]
        width = self.config.hidden_size
        if not len(ids):
            return np.zeros(width, dtype=np.float32)
        seed = hashlib.sha256(ids.astype("<i8").tobytes()).digest()
        random = np.random.RandomState(np.frombuffer(seed, dtype="<u4"))
        vector = ((random.random_sample(width) - 0.5) / width).astype(np.float32)
        options = self._options
        for rate in np.linspace(options.alpha, options.min_alpha, options.epochs):
            self._epoch(vector, ids, float(rate), random)
        return vector

    def _epoch(
        self, vector: Floats, ids: Integers, rate: float, random: np.random.RandomState
    ) -> None:
        options, tables = self._options, self._tables
        ids = ids[random.random_sample(len(ids)) < tables.keep[ids]]
        windows = np.full(len(ids), options.window)
        if options.shrink:
            windows -= random.randint(0, options.window, len(ids))
        drawn = random.random_sample((len(ids), options.negative))
        negative = np.searchsorted(tables.noise, drawn).clip(max=len(tables.noise) - 1)
        for place, word in enumerate(ids):
            others = negative[place][negative[place] != word]
            targets = tables.outputs[np.append(word, others)]
            before = ids[max(place - windows[place], 0) : place]
            near = np.append(before, ids[place + 1 : place + 1 + windows[place]])
            vector += self._update(vector, near, targets, rate)

    def _update(self, vector: Floats, near: Integers, targets: Floats, rate: float) -> Floats:
        if not self._options.memory:
            return step(vector, targets, rate)
        context = vector + self._tables.inputs[near].sum(axis=0)
        return step(context / np.float32(1 + len(near)), targets, rate)
