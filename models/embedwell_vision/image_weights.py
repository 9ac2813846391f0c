"""Tensors of the encoder of an image whose vectors are tokens of a text.

D hidden size, Dh head size, H heads, N patches, P places.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from embedwell_models.checkpoint import weights
from embedwell_models.checkpoint.tables import Array, PlainTable, QuantizedMatrix, Stored, Table
from embedwell_models.checkpoint.weights import StoredWeights
from embedwell_models.vectors import Floats
from embedwell_vision.positions import PatchPlaces
from embedwell_vision.specs import ImageTokenSpec

_ROTATED = re.compile(r"layers\.\d+\.(query|key)(_norm)?\.weight")


def load(folder: Path, spec: ImageTokenSpec) -> StoredWeights:
    """Load the tensors in the order in which the encoders read patches and rotate heads.

    Raises ModelError for a tensor that is missing or unknown, or has another shape.
    """
    loaded = weights.load(folder, spec.encoder)
    if not spec.of_gemma:
        return loaded
    return StoredWeights({name: _ordered(name, loaded.stored(name), spec) for name in loaded})


def channels_first(weight: Array, side: int) -> Array:
    """Put whole channels of a patch side by side: (D, side * side * 3) -> (D, 3 * side * side)."""
    by_pixel = weight.reshape(-1, side, side, 3).transpose(0, 3, 1, 2)
    return np.ascontiguousarray(by_pixel).reshape(weight.shape)


@dataclass(frozen=True)
class PlaceTables:
    """Vectors of the columns and of the rows of patches (P, width), of which some are read."""

    columns: Table
    rows: Table

    @classmethod
    def of(cls, tensors: StoredWeights, width: int) -> "PlaceTables | None":
        """Take the tables from the tensors of an encoder; return None without them."""
        names = [f"patch.{name}.weight" for name in ("columns", "rows")]
        if names[0] not in tensors:
            return None
        columns, rows = (_plain(tensors.stored(name)).reshape(-1, width) for name in names)
        return cls(PlainTable(columns), PlainTable(rows))

    def vectors(self, places: PatchPlaces) -> Floats:
        """Return the sum of both vectors of each patch: (N, width)."""
        return self.columns[places.column] + self.rows[places.row]


def _ordered(name: str, stored: Stored, spec: ImageTokenSpec) -> Stored:
    if name == "patch.weight":
        return channels_first(_plain(stored), spec.patch_size)
    if _ROTATED.fullmatch(name):
        return _halves_apart(_plain(stored), spec.encoder.config.attention.head_size)
    return stored


def _halves_apart(features: Array, size: int) -> Array:
    """Order the features of each head, so that pairs are half a head apart: (H * Dh, ...).

    In the file, a pair is a quarter of a head apart: the first half of the features is rotated by
    the column, the second by the row. The encoders rotate the first half of the pairs by the row.
    """
    quarters = features.reshape(-1, 4, size // 4, *features.shape[1:])
    return np.ascontiguousarray(quarters[:, [2, 0, 3, 1]]).reshape(features.shape)


def _plain(stored: Stored) -> Array:
    return stored.to_float32() if isinstance(stored, QuantizedMatrix) else stored
