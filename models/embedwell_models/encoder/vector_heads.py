"""The modules after an encoder of a sentence model, in float32."""

from collections.abc import Sequence
from copy import copy
from pathlib import Path

import numpy as np

from embedwell_models.encoder.linear import LinearFactory
from embedwell_models.encoder.vector_modules import load_transform
from embedwell_models.model_files.vector_modules import Module
from embedwell_models.vectors import Floats


class VectorHead:
    """Modules that are applied to rows, one after another.

    A row is the pooled vector of a text, or the state of a token in a multi-vector model.
    """

    def __init__(self, folder: Path, modules: Sequence[Module], linear: LinearFactory) -> None:
        """linear: builds layers with independent, bit-identical rows.

        Raises ModelError for weights that are missing or of a wrong shape.
        """
        self._transforms = [load_transform(folder, module, linear) for module in modules]

    def __call__(self, rows: Floats) -> Floats:
        """Apply the modules to each row: (B, pooled) or (T, D) -> (B or T, dim)."""
        with np.errstate(all="ignore"):  # a row that is not finite stays so, without a warning
            for transform in self._transforms:
                rows = transform(rows)
        return rows

    def without_last(self) -> "VectorHead":
        """Return the head without its last module."""
        head = copy(self)
        head._transforms = self._transforms[:-1]
        return head
