"""A check of converted arrays, because a model computes NaN from a single NaN or infinity."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def check_finite(source: Path, arrays: Mapping[str, Any]) -> None:
    """Raise ValueError for an array or tensor with NaN or infinity. source: the file."""
    for name, array in arrays.items():
        if not np.isfinite(np.asarray(array)).all():
            raise ValueError(f"{name} of {source.name} has NaN or infinity")
