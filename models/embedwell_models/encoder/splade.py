"""Sparse vectors over the vocabulary, by the head of a masked language model.

SPLADE: Formal et al. 2021, arXiv 2109.10086. B sequences, T tokens, D hidden size, E size of an
embedding, V vocabulary.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from embedwell_models.checkpoint import safetensors_files, weights
from embedwell_models.checkpoint.weights import Weights
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import Encoder, WeightAndBias
from embedwell_models.encoder.encoders_with_heads import EncoderWithHead
from embedwell_models.errors import ModelError
from embedwell_models.families.heads import MaskedLMHead
from embedwell_models.outputs.text_outputs import SparseVector
from embedwell_models.vectors import Floats

_MAX_NUMBERS = 1 << 24  # weights in memory at once, zeros included


@dataclass(frozen=True)
class MaskedLMWeights:
    """Arrays and options of a head for V tokens of embedding size E.

    dense: (E, D), (E,). norm: (E,), (E,). output: (V, E), (V,). dense and norm are None for a head
    of the output alone.
    """

    dense: WeightAndBias | None
    norm: WeightAndBias | None
    output: WeightAndBias
    activation: str
    eps: float


def load_masked_lm_weights(
    folder: Path, head: MaskedLMHead, token_table: Floats, hidden: int
) -> MaskedLMWeights:
    """Read a head as float32. token_table: the output matrix of a checkpoint that has no own.

    hidden: D, the size of a hidden state. Raises ModelError for a tensor that is missing or of a
    wrong shape.
    """
    read = _read_head(folder, head)
    vocabulary, width = token_table.shape
    shapes = _shapes(head, vocabulary, width, hidden)
    for name, array in read.items():
        if array.shape != shapes[name]:
            raise ModelError(
                f"{folder}: {name} has the shape {array.shape}; config.json requires {shapes[name]}"
            )
    zeros = np.zeros(width, np.float32)
    bias = read.get(f"{head.output}.bias", read.get(head.output_bias))
    return MaskedLMWeights(
        dense=_weight_and_bias(read, head.dense, zeros),
        norm=_weight_and_bias(read, head.norm, zeros),
        output=(
            read.get(f"{head.output}.weight", token_table),
            np.zeros(vocabulary, np.float32) if bias is None else bias,
        ),
        activation=head.activation,
        eps=head.eps,
    )


def _read_head(folder: Path, head: MaskedLMHead) -> dict[str, Floats]:
    optional = {f"{head.output}.weight", f"{head.output}.bias", head.output_bias}
    read: dict[str, Floats] = {}
    for name, tensor in weights.iterate_tensors(folder):
        # Checkpoints converted from TensorFlow name the parameters of a norm gamma and beta.
        plain = re.sub("gamma$", "weight", re.sub("beta$", "bias", name))
        if plain in head.required_tensors | optional:
            read[plain] = safetensors_files.to_finite_float32(folder, name, tensor)
    if missing := head.required_tensors - read.keys():
        raise ModelError(f"{folder}: the checkpoint lacks {sorted(missing)}")
    return read


def _shapes(
    head: MaskedLMHead, vocabulary: int, width: int, hidden: int
) -> dict[str, tuple[int, ...]]:
    return {
        f"{head.dense}.weight": (width, hidden),
        f"{head.dense}.bias": (width,),
        f"{head.norm}.weight": (width,),
        f"{head.norm}.bias": (width,),
        f"{head.output}.weight": (vocabulary, width),
        f"{head.output}.bias": (vocabulary,),
        head.output_bias: (vocabulary,),
    }


def _weight_and_bias(read: Weights, name: str, zeros: Floats) -> WeightAndBias | None:
    return (read[f"{name}.weight"], read.get(f"{name}.bias", zeros)) if name else None


class SpladeHead(Protocol):
    """Head of a masked language model whose logits are pooled over the tokens of a text.

    The weights of a text with states that are not finite are NaN.
    """

    @property
    def vocab_size(self) -> int: ...

    def __call__(self, states: Floats, lengths: Sequence[int]) -> Floats:
        """Pool the states of B sequences: (T, D) -> (B, V)."""
        ...


class SpladeEncoder(EncoderWithHead):
    """Encoder whose pooled vectors are the weights of the vocabulary."""

    def __init__(self, encoder: Encoder, head: SpladeHead, num_layers: int) -> None:
        """num_layers: the number of layers of the inner encoder."""
        super().__init__(encoder, num_layers)
        self._head = head

    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        """Return the weights of the vocabulary: (B, V). poolings: only splade."""
        return np.concatenate(list(self._groups(batch)))

    def sparse(self, batch: Batch) -> list[SparseVector]:
        """Return the non-zero weights of the vocabulary for each of B sequences."""
        return [SparseVector.of(row) for weights in self._groups(batch) for row in weights]

    def _groups(self, batch: Batch) -> Iterator[Floats]:
        return map(self._weights, self._parts(batch))

    def _parts(self, batch: Batch) -> Iterator[Batch]:
        # Few weights are in memory at once, although a batch may have many short sequences.
        return batch.parts(max(1, _MAX_NUMBERS // self._head.vocab_size))

    def _weights(self, batch: Batch) -> Floats:
        # (B, V)
        return self._head(self._encoder.states(batch, self._num_layers), batch.lengths.tolist())
