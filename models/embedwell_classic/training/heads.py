"""Training of sparse and multi-vector outputs, as in BGE-M3, for a model with dense vectors alone.

Linear layers compute both from the states of tokens (Chen et al. 2024, arXiv 2402.03216). The
encoder and its dense vectors do not change.
"""

import logging
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_classic.training.corpus import Pairs
from embedwell_models.checkpoint import safetensors_files
from embedwell_models.description import model_fingerprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.encoder.batch import batches_of_similar_length
from embedwell_models.encoder.sparse_vectors import ignored_ids
from embedwell_models.errors import ModelError
from embedwell_models.model_files.sparse import TOKEN_VECTORS, TOKEN_WEIGHTS
from embedwell_models.outputs.names import DENSE

_TEMPERATURE = 0.02  # divisor of mean cosines, as in the paper
_BUDGET = 2048  # tokens of a forward pass
_LOGS = 20  # log messages of a run

Texts = tuple[str, ...]
"""An anchor, a positive and optionally a negative."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TokenStates:
    """T tokens of N texts: ids (T,), states (T, D) and the number of each token's text (T,)."""

    ids: Tensor
    states: Tensor
    texts: Tensor
    count: int

    def lengths(self) -> list[int]:
        """Return the number of tokens of each text."""
        lengths: list[int] = torch.bincount(self.texts, minlength=self.count).tolist()
        return lengths


class TokenHeads(torch.nn.Module):
    """A linear layer for the weight of each token (D -> 1) and one for its vector (D -> D).

    Before training all weights are 1, and vectors equal the states.
    """

    def __init__(self, width: int, ignored: Sequence[int]) -> None:
        """ignored: ids of tokens without a weight."""
        super().__init__()
        self._ignored = torch.tensor(ignored, dtype=torch.int64)
        self.weight, self.vector = torch.nn.Linear(width, 1), torch.nn.Linear(width, width)
        torch.nn.init.zeros_(self.weight.weight)
        torch.nn.init.ones_(self.weight.bias)
        torch.nn.init.eye_(self.vector.weight)
        torch.nn.init.zeros_(self.vector.bias)

    def loss(self, anchors: TokenStates, candidates: TokenStates) -> Tensor:
        """Compute the loss of the scores, where the candidate of anchor i is candidate i: ().

        The loss is the mean cross-entropy of sparse and of multi-vector scores.
        """
        target = torch.arange(anchors.count)
        sparse = self.sparse_scores(anchors, candidates)
        multi = self.maxsim_scores(anchors, candidates) / _TEMPERATURE
        return (F.cross_entropy(sparse, target) + F.cross_entropy(multi, target)) / 2

    def sparse_scores(self, anchors: TokenStates, candidates: TokenStates) -> Tensor:
        """Compute dot products of sparse vectors: (anchors, candidates)."""
        vocabulary = torch.unique(torch.cat([anchors.ids, candidates.ids]))
        vectors = (self._sparse(texts, vocabulary) for texts in (anchors, candidates))
        left, right = vectors
        return left @ right.T

    def maxsim_scores(self, anchors: TokenStates, candidates: TokenStates) -> Tensor:
        """Compute MaxSim, divided by the number of the anchor's vectors: (anchors, candidates)."""
        queries, documents = self._vectors(anchors), self._vectors(candidates)
        cosines = torch.cat(queries) @ torch.cat(documents).T
        nearest = [part.amax(1) for part in torch.split(cosines, [*map(len, documents)], dim=1)]
        by_query = torch.split(torch.stack(nearest, dim=1), [*map(len, queries)])
        return torch.stack([part.mean(0) for part in by_query])

    def _sparse(self, texts: TokenStates, vocabulary: Tensor) -> Tensor:
        # The largest weight (at least 0) of each token, with one column for each distinct id of the
        # batch.
        is_ignored = torch.isin(texts.ids, self._ignored)
        weights = self.weight(texts.states).flatten().masked_fill(is_ignored, 0)
        cells = texts.texts * len(vocabulary) + torch.searchsorted(vocabulary, texts.ids)
        zeros = weights.new_zeros(texts.count * len(vocabulary))
        vectors: Tensor = zeros.scatter_reduce(0, cells, weights, "amax").view(texts.count, -1)
        return vectors

    def _vectors(self, texts: TokenStates) -> list[Tensor]:
        vectors = F.normalize(self.vector(texts.states), dim=-1)
        return [rows[1:] for rows in torch.split(vectors, texts.lengths())]  # as in the server


@dataclass(frozen=True)
class HeadTraining:
    """Options of `train_heads`.

    max_length: maximum number of tokens of a text in training. dtype: precision of the encoder.
    """

    max_length: int = 128
    epochs: int = 2
    batch_size: int = 32
    learning_rate: float = 1e-3
    seed: int = 1
    dtype: str = "auto"


def train_heads(source: Path, pairs: Pairs, folder: Path, training: HeadTraining) -> None:
    """Write a copy of a model with sparse and multi-vector outputs from two trained linear layers.

    source: the model's folder. folder: an empty folder. Raises ModelError for a model without
    states of tokens, for a model with other outputs than dense vectors, and for unusable pairs.
    """
    model = ModelDescription.read(source)
    if model.outputs != (DENSE,) or not model.spec.config.num_layers:
        raise ModelError(f"{source}: choose a model with layers and only dense vectors")
    embedder = Embedder.load(source, device="cpu", dtype=training.dtype)
    heads = TokenHeads(model.spec.config.hidden_size, ignored_ids(embedder.tokenizer))
    _train(heads, _StateReader(embedder, training.max_length), _distinct(pairs), training)
    for file in model_fingerprint.files(model):
        target = folder / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    for name, layer in ((TOKEN_WEIGHTS, heads.weight), (TOKEN_VECTORS, heads.vector)):
        tensors = {key: tensor.numpy(force=True) for key, tensor in layer.state_dict().items()}
        safetensors_files.write_arrays(folder / name, tensors)


class _StateReader:
    """Reader of the states of texts' tokens."""

    def __init__(self, embedder: Embedder, max_length: int) -> None:
        self._embedder, self._max_length = embedder, max_length

    def __call__(self, texts: Sequence[str], role: str) -> TokenStates:
        embedder = self._embedder
        prompt = embedder.recipe.prompts.get(role)
        truncate, limit = embedder.tokenizer.truncate, min(self._max_length, embedder.max_length)
        ids = [
            truncate(row, max_length=limit).ids for row in embedder.tokenize(texts, prompt=prompt)
        ]
        states: dict[int, Tensor] = {}
        for batch in batches_of_similar_length([*map(len, ids)], _BUDGET):
            hidden = map(torch.from_numpy, embedder.hidden([ids[index] for index in batch]))
            states |= zip(batch, hidden, strict=True)
        numbers = np.repeat(np.arange(len(texts)), [*map(len, ids)])
        return TokenStates(
            ids=torch.tensor([id for row in ids for id in row]),
            states=torch.cat([states[index] for index in range(len(texts))]),
            texts=torch.from_numpy(numbers),
            count=len(texts),
        )


def _train(
    heads: TokenHeads, states: _StateReader, rows: list[Texts], training: HeadTraining
) -> None:
    steps = [*_batches(rows, training)]
    optimizer = torch.optim.Adam(heads.parameters(), training.learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0, len(steps))
    total, logged = 0.0, 0
    for number, batch in enumerate(steps, 1):
        anchors, *candidates = zip(*batch, strict=True)
        texts = [text for column in candidates for text in column]  # the positives come first
        loss = heads.loss(states(anchors, "query"), states(texts, "document"))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        total += loss.item()
        if number * _LOGS // len(steps) > (number - 1) * _LOGS // len(steps):
            log.info("step %s of %s: loss %.4f", number, len(steps), total / (number - logged))
            total, logged = 0.0, number


def _batches(rows: list[Texts], training: HeadTraining) -> Iterator[list[Texts]]:
    shuffled, size = random.Random(training.seed), training.batch_size  # noqa: S311 - no secret
    for _ in range(training.epochs):
        order = shuffled.sample(rows, len(rows))
        batches = (order[start : start + size] for start in range(0, len(order), size))
        yield from (batch for batch in batches if len(batch) > 1)


def _distinct(pairs: Pairs) -> list[Texts]:
    """Return the rows without rows that repeat an anchor or a positive."""
    seen: set[str] = set()
    rows = []
    for row in pairs:
        if seen.isdisjoint(row[:2]):
            rows.append(row)
            seen.update(row[:2])
    if len(rows) < 2:
        raise ModelError(f"{pairs.corpus.name}: a batch compares several pairs: add pairs")
    return rows
