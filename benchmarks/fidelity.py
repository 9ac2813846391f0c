"""Difference between the vectors of an engine and the vectors of the reference."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.peers.batching import Floats


@dataclass(frozen=True)
class Fidelity:
    """Difference over all vectors of all workloads."""

    min_cosine: float
    mean_cosine: float
    max_difference: float


def fidelity(vectors: Mapping[str, Floats], reference: Mapping[str, Floats]) -> Fidelity:
    """Compute the cosines of all vectors to the reference's, and the largest difference."""
    ours, theirs = (
        np.concatenate([part[name] for name in reference]) for part in (vectors, reference)
    )
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    cosines = (ours.astype(np.float64) * theirs).sum(axis=1) / lengths
    return Fidelity(float(cosines.min()), float(cosines.mean()), float(np.abs(ours - theirs).max()))
