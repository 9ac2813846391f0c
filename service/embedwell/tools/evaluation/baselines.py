"""Vectors of word or n-gram counts, as a baseline for models."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from embedwell.inputs.prompts import Role
from embedwell_models.vectors import Floats

DIMENSIONS = 8192  # a hash assigns counts to dimensions
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "one-hot": {"binary": True},
    "bag-of-words": {},
    "n-grams": {"analyzer": "char_wb", "ngram_range": (3, 5)},
}
BASELINES = tuple(_OPTIONS)
"""one-hot: presence of each word. bag-of-words: count of each word. n-grams: counts of 3 to 5
characters inside words."""


class Baseline:
    """Vectors by scikit-learn's HashingVectorizer, which is not fitted to data."""

    def __init__(self, name: str) -> None:
        """name: one of BASELINES."""
        from sklearn.feature_extraction.text import (  # type: ignore[import-untyped]
            HashingVectorizer,
        )

        self._vectorizer = HashingVectorizer(
            n_features=DIMENSIONS, alternate_sign=False, norm=None, **_OPTIONS[name]
        )

    def embed(self, texts: Sequence[str], role: Role | None = None) -> Floats:
        """Compute the vectors of B texts: (B, DIMENSIONS)."""
        vectors: Floats = self._vectorizer.transform(texts).toarray().astype(np.float32)
        return vectors
