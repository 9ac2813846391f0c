"""Positions of the patches of images of any proportions."""

import numpy as np

from embedwell_models.vectors import Floats


def stretched_table(table: Floats, rows: int, columns: int) -> Floats:
    """Stretch a square of vectors: (side * side, D) -> (rows * columns, D).

    Vectors between others are mixed linearly; where several become one, all of them are mixed, as
    in torch's antialiased bilinear interpolation.
    """
    side = round(len(table) ** 0.5)
    down = _shares_of_sources(rows, side) @ table.reshape(side, -1)
    across: Floats = _shares_of_sources(columns, side) @ down.reshape(rows, side, -1)
    return across.reshape(rows * columns, -1)


def _shares_of_sources(target: int, source: int) -> Floats:
    # (target, source): shares of the source that fall with the distance to each target's centre.
    scale = source / target
    centres = (np.arange(target) + 0.5) * scale
    distances = abs(np.arange(source) + 0.5 - centres[:, None]) / max(scale, 1.0)
    shares = np.maximum(1 - distances, 0)
    weights: Floats = (shares / shares.sum(axis=1, keepdims=True)).astype(np.float32)
    return weights
