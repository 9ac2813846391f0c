"""Linear layers from token states to sparse vectors and token vectors, as in BGE-M3.

Chen et al. 2024, arXiv 2402.03216.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

_TEMPERATURE = 0.02  # divisor of mean cosines, as in the paper


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
