"""The facade of the package: a loaded model that turns texts into vectors."""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from models import vocabulary, weights
from models.batch import Batch, Rows
from models.config import EncoderConfig
from models.encoder import Embeddings, Encoder, Floats
from models.errors import ModelError
from models.families import FAMILIES
from models.precision import Choice, Precisions, choose
from models.probes import SENTENCES
from models.sentence import SentenceConfig
from models.sources import DEFAULT, resolve, sha256
from models.tokenizer import Ids, Tokenizer
from models.vectors import normalize

log = logging.getLogger(__name__)


class Embedder:
    """A model on a device, in a precision. Vectors do not depend on what they are batched with."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        sentence: SentenceConfig,
        embeddings: Embeddings,
        choice: Choice,
        fingerprint: str,
    ) -> None:
        self.tokenizer, self.sentence = tokenizer, sentence
        self.config, self.device = embeddings.config, embeddings.device
        self.dtype, self.trials, self.fingerprint = choice.dtype, choice.trials, fingerprint
        self._embeddings, self._encoder = embeddings, choice.encoder

    @classmethod
    def load(
        cls,
        model: str | Path = DEFAULT,
        *,
        device: str = "auto",
        dtype: str = "auto",
        revision: str | None = None,
        cache: Path | None = None,
    ) -> "Embedder":
        """Load a model from a folder, the cache, or the network.

        device: auto, cpu, cuda or cuda:N. dtype: auto, float32, bfloat16, float16 (GPU) or
        int8 (CPU); auto is the fastest that stays faithful to float32 on a set of sentences.
        Raises ModelError when the model, device or precision cannot be had.
        """
        folder = resolve(str(model), revision=revision, cache=cache)
        config = EncoderConfig.read(folder)
        sentence = SentenceConfig.read(folder, config.max_positions)
        tokenizer = Tokenizer(folder, sentence.max_length, sentence.lowercase)
        loaded = weights.load(folder, FAMILIES[config.family], config.num_layers)
        weights.check(loaded, config)
        with torch.inference_mode():
            where = _device(device)
            embeddings = Embeddings(config, loaded, where)
            probe = _Probe(tokenizer, sentence.pooling)
            choice = choose(Precisions(loaded, embeddings), dtype, probe)
        return cls(tokenizer, sentence, embeddings, choice, _fingerprint(folder, sentence))

    @property
    def dim(self) -> int:
        """The number of dimensions of a vector."""
        return self.config.hidden_size * len(self.sentence.pooling)

    @property
    def max_length(self) -> int:
        """The most tokens of one text that are read, special ones included."""
        return self.sentence.max_length

    def tokenize(self, texts: Sequence[str], *, prompt: str | None = None) -> list[Ids]:
        """Token ids of each text after a prompt (the model's default one if None)."""
        before = self.sentence.default_prompt if prompt is None else prompt
        return self.tokenizer.encode([before + text for text in texts])

    def encode(self, ids: Rows, *, normalized: bool | None = None) -> Floats:
        """One forward pass: B sequences of token ids -> (B, dim).

        Raises ValueError for an id or a length that the model does not have.

        normalized: divide by the Euclidean length; by default as the model says.
        """
        vectors = self._encoder.vectors(self._batch(ids), self.sentence.pooling)
        wanted = self.sentence.normalize if normalized is None else normalized
        return normalize(vectors) if wanted else vectors

    def hidden(self, ids: Rows, layer: int | str | None = None) -> list[Floats]:
        """Hidden states of each sequence: B sequences -> B times (length, D).

        Raises ValueError for an id or a length that the model does not have.

        layer: how many layers to apply (all by default), or one summand of the input:
        'token', 'position' or 'segment'.
        """
        batch = self._batch(ids)
        if isinstance(layer, str):
            rows = self._embeddings.part(layer, batch)
        else:
            rows = self._encoder.states(batch, self.config.num_layers if layer is None else layer)
        return np.split(rows, batch.lengths.cumsum()[:-1])

    def embed(
        self, texts: Sequence[str], *, prompt: str | None = None, budget: int = 2048
    ) -> Floats:
        """Texts to vectors, any number of them, `budget` tokens at a time: -> (B, dim)."""
        ids = [row.ids for row in self.tokenize(texts, prompt=prompt)]
        vectors = np.empty((len(ids), self.dim), dtype=np.float32)
        for chosen in _batches([len(row) for row in ids], budget):
            vectors[chosen] = self.encode([ids[i] for i in chosen])
        return vectors

    def warm(self) -> None:
        """Build the kernels of the commonest batch sizes, so that no request waits for them."""
        self._encoder.warm()
        self.encode([self.tokenizer.encode(["warm"])[0].ids] * 4)

    def _batch(self, ids: Rows) -> Batch:
        batch = Batch.of(ids)
        batch.check(self.config.vocab_size, self.config.max_positions)
        return batch


class _Probe:
    """The unit vectors of the probe sentences, as an encoder computes them."""

    def __init__(self, tokenizer: Tokenizer, pooling: Sequence[str]) -> None:
        self._batch = Batch.of([row.ids for row in tokenizer.encode(list(SENTENCES))])
        self._pooling = pooling

    def __call__(self, encoder: Encoder) -> Floats:
        return normalize(encoder.vectors(self._batch, self._pooling))


def _batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    batch: list[int] = []
    tokens = 0
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and tokens + lengths[index] > budget:
            yield batch
            batch, tokens = [], 0
        batch.append(index)
        tokens += lengths[index]
    if batch:
        yield batch


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"device {name!r} cannot be had: {error}") from None


def _fingerprint(folder: Path, sentence: SentenceConfig) -> str:
    # What decides the vectors up to rounding: weights, tokenizer, and how states become a vector.
    parts = [sha256(path) for path in [*weights.files(folder), *vocabulary.files(folder)]]
    parts.append(repr((sentence.max_length, sentence.pooling, sentence.lowercase)))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
