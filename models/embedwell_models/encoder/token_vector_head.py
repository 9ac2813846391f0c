"""Modules that a multi-vector model applies to each token's state, in float32."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from embedwell_models.encoder.linear import LinearFactory
from embedwell_models.encoder.vector_modules import load_transform
from embedwell_models.model_files.vector_modules import Module
from embedwell_models.vectors import Floats


class TokenVectorHead:
    """Modules after the encoder, applied one after another to rows of states."""

    def __init__(self, folder: Path, modules: Sequence[Module], linear: LinearFactory) -> None:
        """linear: builds layers with independent, bit-identical rows.

        Raises ModelError for weights that are missing or of a wrong shape.
        """
        self._transforms = [load_transform(folder, module, linear) for module in modules]

    def __call__(self, states: Floats) -> Floats:
        """Apply the modules to each row: (T, D) -> (T, dim)."""
        with np.errstate(all="ignore"):  # a state that is not finite stays so, without a warning
            for transform in self._transforms:
                states = transform(states)
        return states
