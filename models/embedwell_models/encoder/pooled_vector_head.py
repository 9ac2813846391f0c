"""The modules after the pooling of a sentence model, in float32."""

from collections.abc import Sequence
from copy import copy
from pathlib import Path

import numpy as np

from embedwell_models.encoder.linear import LinearFactory
from embedwell_models.encoder.vector_modules import load_transform
from embedwell_models.model_files.vector_modules import Module
from embedwell_models.vectors import Floats


class PooledVectorHead:
    """Modules that are applied to pooled vectors, one after another."""

    def __init__(self, folder: Path, modules: Sequence[Module], linear: LinearFactory) -> None:
        """linear: builds layers with independent, bit-identical rows.

        Raises ModelError for weights that are missing or of a wrong shape.
        """
        self._transforms = [load_transform(folder, module, linear) for module in modules]

    def without_last(self) -> "PooledVectorHead":
        """Return the head without its last module."""
        head = copy(self)
        head._transforms = self._transforms[:-1]
        return head

    def __call__(self, vectors: Floats) -> Floats:
        """Apply the modules to each vector: (B, pooled) -> (B, dim)."""
        with np.errstate(all="ignore"):  # a vector that is not finite stays so, without a warning
            for transform in self._transforms:
                vectors = transform(vectors)
        return vectors
