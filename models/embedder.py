"""The facade of the package: a loaded model that turns texts into vectors."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from models.checkpoint import weights
from models.cpu_backend import library as instructions
from models.encoder.batch import Batch, Rows, up_to
from models.encoder.device import find
from models.encoder.head import Head
from models.errors import EmptyTextError, ModelError
from models.folder import Folder
from models.hub.sources import DEFAULT, resolve
from models.precision.calibration_sentences import SENTENCES
from models.precision.trials import Choice, Precisions, Trial, choose
from models.sentence_transformers.pooling import AUTO
from models.tokenizer.tokenizer import Ids, Tokenizer
from models.torch_backend.encoder import Embeddings, Encoder
from models.vectors import Floats, normalize

log = logging.getLogger(__name__)


class Embedder:
    """A model on a device, in a precision.

    fingerprint: of all that decides its vectors up to rounding: Folder's, and the precision.

    Vectors do not depend on what they are batched with: to the bit on a CPU, to rounding on a GPU.
    """

    def __init__(
        self,
        folder: Folder,
        tokenizer: Tokenizer,
        embeddings: Embeddings,
        choice: Choice,
        head: Head,
    ) -> None:
        self.tokenizer, self.sentence, self.dim = tokenizer, folder.sentence, folder.dim
        self.config, self.device = embeddings.config, embeddings.device
        self.dtype, self.trials = choice.dtype, choice.trials
        self.fingerprint = f"{folder.fingerprint()}-{choice.dtype}"
        self.isa = choice.isa
        self._embeddings, self._encoder, self._head = embeddings, choice.encoder, head

    @classmethod
    def load(  # noqa: PLR0913 - all but one by name
        cls,
        model: str | Path = DEFAULT,
        *,
        device: str = "auto",
        dtype: str = "auto",
        isa: str = "auto",
        pooling: str = AUTO,
        trials: Sequence[Trial] | None = None,
        revision: str | None = None,
        cache: Path | None = None,
    ) -> "Embedder":
        """Load a model from a folder, the cache, or the network.

        device: auto, cpu, cuda or cuda:N. dtype: auto, float32, bfloat16, float16 (GPU) or
        int8 (CPU); auto is the fastest that stays faithful to float32 on a set of sentences.
        pooling: mean, cls, max, lasttoken, weightedmean or mean_sqrt_len_tokens; auto is the one
        that the model's files name.
        isa: the highest instruction set of the compiled kernels, one of CAPS in
        models.cpu_backend.library: auto is the best of this processor, none leaves all to torch.
        trials: those of an earlier load in this dtype, which are then not repeated.
        Raises ModelError when the model, device or precision cannot be had.
        """
        folder = Folder.read(resolve(str(model), revision=revision, cache=cache), pooling)
        tokenizer = folder.tokenizer()
        head = Head(folder.path, folder.sentence.modules)
        loaded = weights.load(folder.encoder, folder.blueprint)
        with torch.inference_mode():
            embeddings = Embeddings(folder.blueprint.config, loaded, find(device))
            vocabulary = folder.blueprint.config.vocab_size
            probe = _Probe(tokenizer, vocabulary, folder.sentence.pooling, head)
            precisions = Precisions(loaded, embeddings, instructions.features(isa))
            choice = choose(precisions, dtype, probe, trials)
            choice = replace(choice, isa=precisions.isa(choice.dtype))
        torch.cuda.empty_cache()  # of the precisions that were tried
        return cls(folder, tokenizer, embeddings, choice, head)

    @property
    def max_length(self) -> int:
        """The most tokens of one text that are read, special ones included."""
        return self.sentence.max_length

    @property
    def lanes(self) -> int:
        """How many passes can run at once, each on a single thread."""
        return self._encoder.lanes

    @property
    def ahead(self) -> int:
        """How many more passes may be asked for, from other threads, while one is computed."""
        return self._encoder.ahead

    def tokenize(self, texts: Sequence[str], *, prompt: str | None = None) -> list[Ids]:
        """Token ids of each text after a prompt (the model's default one if None)."""
        before = self.sentence.default_prompt if prompt is None else prompt
        return self.tokenizer.encode([before + text for text in texts])

    def encode(
        self, ids: Rows, *, normalized: bool | None = None, skips: Sequence[int] = ()
    ) -> Floats:
        """One forward pass: B sequences of token ids -> (B, dim).

        Raises ValueError for an id or a length that the model does not have.

        normalized: divide by the Euclidean length; by default as the model says. skips: how many
        tokens of each sequence, the first ones, are not pooled; by default none.
        """
        if (end := self.sentence.end) is not None:
            ids = [up_to(row, end) for row in ids]
        batch = self._batch(ids, skips)
        vectors = self._head(self._encoder.vectors(batch, self.sentence.pooling))
        wanted = self.sentence.normalize if normalized is None else normalized
        return normalize(vectors) if wanted else vectors

    def hidden(self, ids: Rows, layer: int | str | None = None) -> list[Floats]:
        """Hidden states of each sequence: B sequences -> B times (length, D).

        Raises ValueError for an id, a length or a layer that the model does not have.

        layer: how many layers to apply (all by default), or one summand of the input:
        'token', 'position' or 'segment'.
        """
        batch = self._batch(ids)
        if isinstance(layer, str):
            rows = self._embeddings.part(layer, batch)
        else:
            most = self.config.num_layers
            count = most if layer is None else layer
            if not 0 <= count <= most:
                raise ValueError(f"layers are 0 to {most}")
            rows = self._encoder.states(batch, count)
        return np.split(rows, batch.lengths.cumsum()[:-1])

    def embed(
        self, texts: Sequence[str], *, prompt: str | None = None, budget: int = 2048
    ) -> Floats:
        """Texts to vectors, any number of them, `budget` tokens at a time: -> (B, dim).

        Raises EmptyTextError and UnsplittableTextError.
        """
        before = self.sentence.default_prompt if prompt is None else prompt
        skip, side = self.sentence.skip(before, self.tokenizer), self.tokenizer.side
        count = self.tokenizer.enough(skip, side)
        rows = self.tokenizer.encode([before + text for text in texts], count=count)
        for index, row in enumerate(rows):
            if len(row.ids) < self.config.shortest:
                raise EmptyTextError(index)
        vectors = np.empty((len(rows), self.dim), dtype=np.float32)
        for chosen in _batches([len(row.ids) for row in rows], budget):
            skips = [rows[i].left(skip, side) for i in chosen]
            vectors[chosen] = self.encode([rows[i].ids for i in chosen], skips=skips)
        return vectors

    def warm(self) -> None:
        """Build the kernels of the commonest batch sizes, so that no request waits for them."""
        self._encoder.warm()
        self.encode([[0]] * 4)  # an id that every vocabulary has

    def _batch(self, ids: Rows, skips: Sequence[int] = ()) -> Batch:
        batch, config = Batch.of(ids, skips), self.config
        batch.check(config.vocab_size, config.longest, config.shortest)
        return batch


class _Probe:
    """The unit vectors of the probe sentences, as they come of what an encoder computes."""

    def __init__(
        self, tokenizer: Tokenizer, vocabulary: int, pooling: Sequence[str], head: Head
    ) -> None:
        """vocabulary: how many token ids the model has vectors of; raises ModelError."""
        rows = [row.ids for row in tokenizer.encode(list(SENTENCES))]
        known = [ids for ids in rows if ids and max(ids) < vocabulary]
        if not known:
            raise ModelError(
                f"the tokenizer's ids are not those of a table of {vocabulary} vectors"
            )
        self._batch = Batch.of(known)
        self._pooling, self._head = pooling, head

    def __call__(self, encoder: Encoder) -> Floats:
        return normalize(self._head(encoder.vectors(self._batch, self._pooling)))


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
