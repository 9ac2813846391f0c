"""Training of sparse and multi-vector outputs for a model that has only dense vectors.

The encoder and its dense vectors do not change.
"""

import logging
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from embedwell_models import model_fingerprint
from embedwell_models.checkpoint import safetensors_files
from embedwell_models.embedder import Embedder
from embedwell_models.encoder.sparse_vectors import ignored_ids
from embedwell_models.encoder.token_budget import batches_of_similar_length
from embedwell_models.errors import ModelError
from embedwell_models.model_description import ModelDescription
from embedwell_models.model_files.sparse import TOKEN_VECTORS, TOKEN_WEIGHTS
from embedwell_models.outputs.names import DENSE
from embedwell_models.training.pairs import Pairs
from embedwell_models.training.token_heads import TokenHeads, TokenStates

_BUDGET = 2048  # tokens of a forward pass
_LOGS = 20  # log messages of a run

Row = tuple[str, ...]
"""An anchor, a positive and optionally a negative."""

log = logging.getLogger(__name__)


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
        prompt = embedder.sentence.prompts.get(role)
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
    heads: TokenHeads, states: _StateReader, rows: list[Row], training: HeadTraining
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


def _batches(rows: list[Row], training: HeadTraining) -> Iterator[list[Row]]:
    shuffled, size = random.Random(training.seed), training.batch_size  # noqa: S311 - no secret
    for _ in range(training.epochs):
        order = shuffled.sample(rows, len(rows))
        batches = (order[start : start + size] for start in range(0, len(order), size))
        yield from (batch for batch in batches if len(batch) > 1)


def _distinct(pairs: Pairs) -> list[Row]:
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
