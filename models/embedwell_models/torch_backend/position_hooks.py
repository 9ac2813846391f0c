"""Position schemes as hooks that the encoder calls for its input, heads and scores.

T tokens, N sequences, H heads, Dh head size, D model width, P positions, Q queries, K keys.
"""

import sys
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from embedwell_models.positions import schemes, tables
from embedwell_models.torch_backend.norm import HeadNorms
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.tensors import text_products, to_device


@dataclass(frozen=True)
class RelativeScores:
    """Scores for the distance of query and key, added to the scaled product; None for none.

    H heads, T tokens, M the largest distance in a table, R relative positions.

    slopes: (H,), times the distance, are subtracted (ALiBi). table: (H, 2 M + 1), added by
    distance, key minus query; M for larger distances. query_scores, key_scores: (H, T, R), scores
    of each query, or key, with relative positions, which are scaled and added. index: (2 M + 1,)
    int32, the relative position of each distance, key minus query.
    """

    slopes: Tensor | None = None
    table: Tensor | None = None
    query_scores: Tensor | None = None
    key_scores: Tensor | None = None
    index: Tensor | None = None


class PositionHooks:
    """Base class without positions; subclasses override the hooks that their scheme needs."""

    cache_key: Hashable = schemes.Scheme()
    """Equal for hooks whose `rotate`, `bias` and `relative_features` return the same."""
    longest_recordable: int = sys.maxsize
    """Maximum length of texts for which the hooks need nothing of the host in each pass."""

    @property
    def adds_no_scores(self) -> bool:
        """Whether `bias` and `relative_score` never add anything."""
        hooks = (type(self).bias, type(self).relative_score)
        return hooks == (PositionHooks.bias, PositionHooks.relative_score)

    def embed(self, hidden: Tensor, ids: Tensor, positions: Tensor) -> Tensor:
        """Add positions (T,) to the vectors (T, D) of token ids (T,); return (T, D)."""
        return hidden

    def rotate(
        self, heads: Tensor, layout: SequenceLayout, norms: HeadNorms | None = None
    ) -> Tensor:
        """Rotate queries or keys (T, H, Dh) by their positions, maybe in place.

        norms: computed first, by a RotatePairs of a GPU.
        """
        return heads

    def bias(self, length: int) -> Tensor | None:
        """Return the bias of the scores for each distance, key minus query position.

        The shape is (H, 2 * length - 1), for the distances 1 - length to length - 1.
        """
        return None

    def relative_features(self, length: int) -> Tensor | None:
        """Return the rows that `relative_score` reads, one for each distance in order.

        The rows are the same in all layers.
        """
        return None

    def relative_score(
        self, query: Tensor, key: Tensor, relative: Tensor, index: Tensor
    ) -> Tensor | None:
        """Return the term that is added to the unscaled content scores: (N, H, Q, K).

        query: (N, H, Q, Dh). key: (N, H, K, Dh). relative: the relative_features. index: (Q, K),
        the row of each pair's distance in `relative`.
        """
        return None

    def packed_scores(self, query: Tensor, key: Tensor) -> RelativeScores:
        """Return what `bias` and `relative_score` add, for the kernel of packed texts.

        query, key: (T, H, Dh). Raises NotImplementedError if `has_packed_scores` is false.
        """
        if not self.adds_no_scores:
            raise NotImplementedError(type(self).__name__)
        return RelativeScores()

    @property
    def has_packed_scores(self) -> bool:
        """Whether the kernel of packed texts can add the scores."""
        return self.adds_no_scores or type(self).packed_scores != PositionHooks.packed_scores


class PositionTable(PositionHooks):
    """A vector for each position, trained (Devlin et al. 2018, arXiv 1810.04805) or computed."""

    def __init__(self, table: Tensor) -> None:
        """table: (P, D)."""
        self.table, self.padding = table, -1

    def embed(self, hidden: Tensor, ids: Tensor, positions: Tensor) -> Tensor:
        return hidden + self.table.index_select(0, positions)


class PaddedPositionTable(PositionHooks):
    """A table with a row for the padding token, which does not count as a position (RoBERTa)."""

    def __init__(self, table: Tensor, padding: int) -> None:
        """table: (1 + P, D), the padding token's row first."""
        self.table, self.padding = table, padding

    def embed(self, hidden: Tensor, ids: Tensor, positions: Tensor) -> Tensor:
        counts = (ids != self.padding).to(torch.int32)
        before = counts.cumsum(0, dtype=torch.int32) - counts
        starts = torch.arange(len(ids), dtype=torch.int32, device=ids.device) - positions
        rows = (before - before.index_select(0, starts) + 1) * counts
        return hidden + self.table.index_select(0, rows)


class Alibi(PositionHooks):
    """A penalty for distance with a slope for each head (Press et al. 2021, arXiv 2108.12409)."""

    def __init__(self, scheme: schemes.Alibi, slopes: Tensor) -> None:
        """slopes: (H,)."""
        self.cache_key, self.slopes = scheme, slopes

    def bias(self, length: int) -> Tensor:
        distances = torch.arange(1 - length, length, device=self.slopes.device)
        return -self.slopes[:, None] * distances.abs()

    def packed_scores(self, query: Tensor, key: Tensor) -> RelativeScores:
        return RelativeScores(slopes=self.slopes)


class Buckets(PositionHooks):
    """A trained bias for each bucket of distances (Raffel et al. 2020, arXiv 1910.10683)."""

    def __init__(self, scheme: schemes.Buckets, table: Tensor, layer: str = "") -> None:
        """table: (buckets, H). layer: the name of its layer; empty if all layers share it."""
        self.cache_key, self.scheme = (scheme, layer), scheme
        self._table = table

    def bias(self, length: int) -> Tensor:
        scheme = self.scheme
        distances = np.arange(1 - length, length)
        buckets = tables.t5_buckets(distances, scheme.buckets, scheme.max_distance)
        (rows,) = to_device(self._table.device, torch.from_numpy(buckets))
        return self._table[rows].T

    def packed_scores(self, query: Tensor, key: Tensor) -> RelativeScores:
        return RelativeScores(table=self._bias_of_all_distances)

    @cached_property
    def _bias_of_all_distances(self) -> Tensor:
        # From the largest distance on, the bias stays the same.
        return self.bias(self.scheme.max_distance + 1).contiguous()


class Disentangled(PositionHooks):
    """Scores of content with position and position with content (DeBERTa, arXiv 2006.03654)."""

    def __init__(self, scheme: schemes.Disentangled, query: Tensor, key: Tensor) -> None:
        """query, key: (2 * span, H, Dh), one row for each relative position."""
        self.cache_key = self.scheme = scheme
        self._queries, self._keys = query, key

    def relative_features(self, length: int) -> Tensor:
        """Return the rows of the distances in the tables."""
        scheme, distances = self.scheme, np.arange(length - 1, -length, -1)
        rows = tables.deberta_buckets(distances, scheme.buckets, scheme.max_distance) + scheme.span
        rows = rows.clip(0, 2 * scheme.span - 1)
        return to_device(self._keys.device, torch.from_numpy(rows))[0]

    def relative_score(self, query: Tensor, key: Tensor, relative: Tensor, index: Tensor) -> Tensor:
        scheme, size, rows = self.scheme, query.shape[:3] + key.shape[2:3], relative[index]
        total = query.new_zeros(size)
        if scheme.content_to_position:
            scores = text_products(query, self._keys.permute(1, 2, 0))
            total += scores.gather(-1, rows.expand(size))
        if scheme.position_to_content:
            scores = text_products(key, self._queries.permute(1, 2, 0))
            total += scores.gather(-1, rows.T.expand(scores.shape[:3] + rows.shape[:1])).mT
        return total

    def packed_scores(self, query: Tensor, key: Tensor) -> RelativeScores:
        scheme = self.scheme

        def products(part: Tensor, table: Tensor) -> Tensor:
            return part.transpose(0, 1) @ table.permute(1, 2, 0)  # (H, T, R)

        return RelativeScores(
            query_scores=products(query, self._keys) if scheme.content_to_position else None,
            key_scores=products(key, self._queries) if scheme.position_to_content else None,
            index=self._rows_of_all_distances,
        )

    @cached_property
    def _rows_of_all_distances(self) -> Tensor:
        # Beyond the largest distance, the row stays the same.
        return self.relative_features(self.scheme.max_distance + 2).to(torch.int32)


class TransformerXL(PositionHooks):
    """Scores with the sinusoid of the distance (Dai et al. 2019, arXiv 1901.02860)."""

    def __init__(self, scheme: schemes.TransformerXL, weight: Tensor, bias: Tensor) -> None:
        """weight: (H, Dh, D), applied to distances. bias: (H, Dh), added to the query."""
        self.cache_key = self.scheme = scheme
        self._weight, self._shift = weight, bias

    def relative_features(self, length: int) -> Tensor:
        """Return the sinusoids of the distances: (2 * length - 1, D)."""
        distances = np.arange(length - 1, -length, -1)  # query minus key
        table = tables.transformer_xl(distances, self._weight.shape[2], self.scheme.base)
        (flat,) = to_device(self._weight.device, torch.from_numpy(table).flatten())
        return flat.view(table.shape).to(self._weight.dtype)

    def relative_score(self, query: Tensor, key: Tensor, relative: Tensor, index: Tensor) -> Tensor:
        keys = self._weight @ relative.T  # (H, Dh, distances)
        scores = text_products(query + self._shift[:, None], keys)
        return scores.gather(-1, index.expand(scores.shape[:3] + index.shape[1:]))
