"""Sparse vectors from token ids alone, or from the state of each token."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from embedwell_models.checkpoint import weights
from embedwell_models.config.json_config import read_object
from embedwell_models.errors import ModelError
from embedwell_models.model_files.sparse import TOKEN_WEIGHTS, QueryWeights
from embedwell_models.outputs.text_outputs import SparseVector
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.vectors import Floats, TokenIds

_IGNORED_ROLES = ("cls", "sep", "eos", "pad", "unk")  # roles of tokens that every text contains


class QueryVectors:
    """Sparse vectors of queries with fixed weights, such as inverse document frequencies (IDF).

    A token has the same weight in every query, so no encoder is needed.
    """

    def __init__(
        self, folder: Path, query: QueryWeights, tokenizer: Tokenizer, vocab_size: int
    ) -> None:
        """folder: the model's. Raises ModelError for weights that cannot be read."""
        self._tokenizer = tokenizer
        self._weights = (
            _read_tensor(folder / query.path, vocab_size)
            if query.json_file is None
            else _read_json(query.file(folder), tokenizer, vocab_size)
        )

    def __call__(self, ids: TokenIds) -> SparseVector:
        """Return the weights of a query's distinct tokens, without surrounding special tokens."""
        tokens = np.unique(self._tokenizer.strip_ids(np.asarray(ids).tolist())).astype(np.int32)
        tokens = tokens[self._weights[tokens] != 0]
        return SparseVector(tokens, self._weights[tokens])


class TokenWeightVectors:
    """Sparse vectors of texts: a trained layer weighs the state of each token.

    The weight of a token is the maximum of relu(w x + b) over the states x of its occurrences:
    BGE-M3 (Chen et al. 2024, arXiv 2402.03216). layer: w (1, D) and b (1,).
    """

    def __init__(self, folder: Path, tokenizer: Tokenizer, hidden_size: int) -> None:
        """folder: the model's. Raises ModelError for weights that cannot be read."""
        shapes = {"weight": (1, hidden_size), "bias": (1,)}
        tensors = weights.read_file(folder / TOKEN_WEIGHTS, shapes)
        self.layer = tensors["weight"], tensors["bias"]
        self._ignored = ignored_ids(tokenizer)

    def weigh(self, states: Floats) -> Floats:
        """Weigh the tokens of a text by their last states: (T, D) -> (T, 1)."""
        weight, bias = self.layer
        # A matrix product may sum in an order that depends on T, so none is used.
        sums = (states * weight).sum(axis=1, keepdims=True) + bias
        weights: Floats = np.maximum(sums, 0)
        return weights

    def __call__(self, ids: npt.NDArray[np.integer], weights: Floats) -> SparseVector:
        """Return the largest weight of each token of a text. ids: (T,). weights: (T, 1)."""
        tokens, occurrences = np.unique(ids, return_inverse=True)
        largest = np.zeros(len(tokens), dtype=np.float32)
        np.maximum.at(largest, occurrences, weights[:, 0])
        chosen = (largest > 0) & ~np.isin(tokens, self._ignored)
        return SparseVector(tokens[chosen].astype(np.int32), largest[chosen])


def ignored_ids(tokenizer: Tokenizer) -> list[int]:
    """Return the ids of tokens that have no weight."""
    ids = (tokenizer.special_id(role) for role in _IGNORED_ROLES)
    return [id for id in ids if id is not None]


def _read_tensor(folder: Path, vocab_size: int) -> Floats:
    tensors = weights.read_file(folder / "model.safetensors", {"weight": (vocab_size,)})
    return tensors["weight"]


def _read_json(path: Path, tokenizer: Tokenizer, vocab_size: int) -> Floats:
    read = np.zeros(vocab_size, dtype=np.float32)
    for token, weight in read_object(path).items():
        id = tokenizer.token_id(token)
        if id is None or id >= vocab_size:
            raise ModelError(f"{path}: the tokenizer has no token {token!r}")
        if not isinstance(weight, int | float):
            raise ModelError(f"{path}: the weight of {token!r} is not a number: {weight!r}")
        read[id] = weight
    return read
