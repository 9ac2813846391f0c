"""Vectors without a model, by counts of words or of n-grams: what a model has to be better than."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from embedwell.inputs.prompts import Role
from embedwell_models.vectors import Floats

DIMENSIONS = 8192  # of counts that share them by a hash
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "one-hot": {"binary": True},
    "bag-of-words": {},
    "n-grams": {"analyzer": "char_wb", "ngram_range": (3, 5)},
}
BASELINES = tuple(_OPTIONS)
"""one-hot: the words of a text, each once. bag-of-words: their counts. n-grams: counts of 3 to 5
characters inside of words."""


class Baseline:
    """scikit-learn's HashingVectorizer, whose vectors of a text depend on nothing else."""

    def __init__(self, name: str) -> None:
        """name: one of BASELINES."""
        from sklearn.feature_extraction.text import (  # type: ignore[import-untyped]
            HashingVectorizer,
        )

        self._vectorizer = HashingVectorizer(
            n_features=DIMENSIONS, alternate_sign=False, norm=None, **_OPTIONS[name]
        )

    def embed(self, texts: Sequence[str], role: Role | None = None) -> Floats:
        """The vectors of B texts: (B, DIMENSIONS)."""
        vectors: Floats = self._vectorizer.transform(texts).toarray().astype(np.float32)
        return vectors
