"""Scores that depend on the distance of query and key, and the keys that a query sees.

B texts, T tokens, H heads, M the largest distance in a table, R relative positions.
"""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class RelativeScores:
    """Scores for the distance of query and key, added to the scaled product; None for none.

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


@dataclass(frozen=True)
class Visibility:
    """Keys that a query sees. window: None for all. key_counts: (B,) int32, or None for all."""

    causal: bool = False
    window: int | None = None
    key_counts: Tensor | None = None
