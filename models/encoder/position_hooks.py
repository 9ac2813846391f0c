"""Position schemes as the encoder calls them: hooks of the input, the heads and the scores.

T tokens, N sequences, H heads, Dh head size, D model width, P positions, Q queries, K keys.
"""

from collections.abc import Hashable

import numpy as np
import torch
from torch import Tensor

from models.encoder.async_copy import send
from models.encoder.sequence_layout import Packing
from models.positions import schemes, tables


class Positions:
    """A scheme overrides the hooks it needs; the encoder calls all and never asks which it is."""

    key: Hashable = schemes.Scheme()
    """What `rotate`, `bias` and `relative` depend on, besides the weights that layers share."""
    table: Tensor | None = None
    """(P, D): what `embed` adds to a token's vector at each position, if that is all it does.

    With `padding`, a token's row comes first that has no position: (1 + P, D).
    """
    padding: int = -1
    """The id of that token, -1 for none."""

    @property
    def unscored(self) -> bool:
        """Whether neither `bias` nor `score` ever adds something."""
        hooks = (type(self).bias, type(self).score)
        return hooks == (Positions.bias, Positions.score)

    def embed(self, hidden: Tensor, ids: Tensor, positions: Tensor) -> Tensor:
        """What enters the first layer: (T, D) token vectors, (T,) ids and places -> (T, D)."""
        return hidden

    def rotate(self, query: Tensor, key: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
        """Queries (T, H, Dh) and keys turned by their positions."""
        return query, key

    def bias(self, reach: int) -> Tensor | None:
        """What is added to the scores, by the key's position minus the query's.

        (H, 2 * reach - 1): the distances 1 - reach to reach - 1, in order.
        """
        return None

    def relative(self, reach: int) -> Tensor | None:
        """What `score` reads of the distances that `bias` is of, in their order; in all layers."""
        return None

    def score(self, query: Tensor, key: Tensor, relative: Tensor, index: Tensor) -> Tensor | None:
        """What the scores of content gain before they are scaled: (N, H, Q, K).

        query: (N, H, Q, Dh). key: (N, H, K, Dh). index: (Q, K), the place of each pair's distance
        in that order.
        """
        return None


class Table(Positions):
    """A vector for each position, trained (Devlin et al. 2018, arXiv 1810.04805) or computed."""

    def __init__(self, table: Tensor) -> None:
        """table: (P, D)."""
        self.table: Tensor = table

    def embed(self, hidden: Tensor, ids: Tensor, positions: Tensor) -> Tensor:
        return hidden + self.table[positions]


class Padded(Positions):
    """A table in which a padding token has a row, and no place among the others (RoBERTa)."""

    def __init__(self, table: Tensor, padding: int) -> None:
        """table: (1 + P, D), that token's row first."""
        self.table: Tensor = table
        self.padding = padding

    def embed(self, hidden: Tensor, ids: Tensor, positions: Tensor) -> Tensor:
        placed = (ids != self.padding).to(torch.int64)
        before = placed.cumsum(0) - placed
        firsts = torch.arange(len(ids), device=ids.device) - positions
        return hidden + self.table[(before - before[firsts] + 1) * placed]


class Rotary(Positions):
    """Rotation of pairs of features (Su et al. 2021, arXiv 2104.09864)."""

    def __init__(self, scheme: schemes.Rotary) -> None:
        self.key = self.scheme = scheme

    def rotate(self, query: Tensor, key: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
        dtype = query.dtype
        cos, sin = packing.recall(self.scheme, lambda some: self._turns(some, dtype))
        return self._turn(query, cos, sin), self._turn(key, cos, sin)

    def _turns(self, packing: Packing, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        # (T, 1, dim / 2) each; a text's own length decides how its frequencies are stretched.
        rows = np.stack([tables.frequencies(self.scheme, length) for length in packing.sizes])
        (flat,) = send(packing.starts.device, torch.from_numpy(rows.astype(np.float64)).flatten())
        each = flat.view(rows.shape).repeat_interleave(
            packing.lengths, 0, output_size=packing.tokens
        )
        angles = each.new_zeros(packing.rows, each.shape[1])
        angles[: packing.tokens] = each * packing.positions[: packing.tokens, None]
        scale = self.scheme.scaling.magnitude
        turns = (part.mul(scale).to(dtype) for part in _cos_sin(angles))
        cos, sin = (part[:, None] for part in turns)
        return cos, sin

    def _turn(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        turned, rest = x[..., : self.scheme.dim], x[..., self.scheme.dim :]
        if self.scheme.interleaved:
            a, b = turned[..., 0::2], turned[..., 1::2]
            pairs = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
        else:
            a, b = turned.chunk(2, dim=-1)
            pairs = torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
        return torch.cat([pairs, rest], dim=-1) if rest.shape[-1] else pairs


def _cos_sin(angles: Tensor) -> tuple[Tensor, Tensor]:
    return angles.cos(), angles.sin()


class Alibi(Positions):
    """A penalty for distance, a slope for each head (Press et al. 2021, arXiv 2108.12409)."""

    def __init__(self, scheme: schemes.Alibi, slopes: Tensor) -> None:
        """slopes: (H,)."""
        self.key, self.slopes = scheme, slopes

    def bias(self, reach: int) -> Tensor:
        distances = torch.arange(1 - reach, reach, device=self.slopes.device)
        return -self.slopes[:, None] * distances.abs()


class Buckets(Positions):
    """A trained bias for each bucket of distances (Raffel et al. 2020, arXiv 1910.10683)."""

    def __init__(self, scheme: schemes.Buckets, table: Tensor, layer: str = "") -> None:
        """table: (buckets, H). layer: the name of the only one that has it, if not all share it."""
        self.key, self.scheme = (scheme, layer), scheme
        self._table = table

    def bias(self, reach: int) -> Tensor:
        scheme = self.scheme
        distances = np.arange(1 - reach, reach)
        found = tables.buckets(distances, scheme.buckets, scheme.max_distance)
        (rows,) = send(self._table.device, torch.from_numpy(found))
        return self._table[rows].T


class Disentangled(Positions):
    """Content with position and position with content (He et al. 2020, arXiv 2006.03654)."""

    def __init__(self, scheme: schemes.Disentangled, query: Tensor, key: Tensor) -> None:
        """query, key: (2 * span, H, Dh), of each relative position."""
        self.key = self.scheme = scheme
        self._queries, self._keys = query, key

    def relative(self, reach: int) -> Tensor:
        """Their rows in the tables."""
        scheme, places = self.scheme, np.arange(reach - 1, -reach, -1)
        found = tables.log_buckets(places, scheme.buckets, scheme.max_distance) + scheme.span
        (rows,) = send(self._keys.device, torch.from_numpy(found.clip(0, 2 * scheme.span - 1)))
        return rows

    def score(self, query: Tensor, key: Tensor, relative: Tensor, index: Tensor) -> Tensor:
        scheme, size, rows = self.scheme, query.shape[:3] + key.shape[2:3], relative[index]
        total = query.new_zeros(size)
        if scheme.content_to_position:
            scores = query @ self._keys.permute(1, 2, 0)
            total += scores.gather(-1, rows.expand(size))
        if scheme.position_to_content:
            scores = key @ self._queries.permute(1, 2, 0)
            total += scores.gather(-1, rows.T.expand(scores.shape[:3] + rows.shape[:1])).mT
        return total


class Recurrent(Positions):
    """Scores with the sinusoid of a distance (Dai et al. 2019, Transformer-XL, 1901.02860)."""

    def __init__(self, scheme: schemes.Recurrent, weight: Tensor, bias: Tensor) -> None:
        """weight: (H, Dh, D), of distances. bias: (H, Dh), added to the query for them."""
        self.key = self.scheme = scheme
        self._weight, self._shift = weight, bias

    def relative(self, reach: int) -> Tensor:
        """Their sinusoids: (2 * reach - 1, D)."""
        distances = np.arange(reach - 1, -reach, -1)  # query minus key
        table = tables.halves(distances, self._weight.shape[2], self.scheme.base)
        (flat,) = send(self._weight.device, torch.from_numpy(table).flatten())
        return flat.view(table.shape).to(self._weight.dtype)

    def score(self, query: Tensor, key: Tensor, relative: Tensor, index: Tensor) -> Tensor:
        keys = self._weight @ relative.T  # (H, Dh, distances)
        scores = (query + self._shift[:, None]) @ keys
        return scores.gather(-1, index.expand(scores.shape[:3] + index.shape[1:]))
