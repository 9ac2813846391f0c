"""Positions of the patches of images of any proportions."""

from dataclasses import dataclass

import numpy as np

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.encoder.batch import Integers
from embedwell_models.positions import tables
from embedwell_models.positions.schemes import Rotary
from embedwell_models.vectors import Doubles, Floats


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


@dataclass(frozen=True)
class PatchPlaces:
    """The row and the column (N,) of each patch of an image, block by block."""

    row: Integers
    column: Integers

    @classmethod
    def of(cls, rows: int, columns: int, merge: int) -> "PatchPlaces":
        """Return the places of rows and columns of patches. merge: patches of a block's side."""
        blocks = np.indices((rows, columns)).reshape(
            2, rows // merge, merge, columns // merge, merge
        )
        return cls(*blocks.transpose(0, 1, 3, 2, 4).reshape(2, -1))

    def __getitem__(self, order: Integers) -> "PatchPlaces":
        return PatchPlaces(self.row[order], self.column[order])

    def angles(self, config: EncoderConfig) -> Doubles:
        """Return the angles that rotate the patches' pairs of a head: (N, pairs).

        The first half of a head's pairs rotates by the row, the second by the column.
        """
        scheme = config.attention.positions
        assert isinstance(scheme, Rotary)
        frequencies = tables.frequencies(scheme)[::2]
        angles = [place[:, None] * frequencies for place in (self.row, self.column)]
        return np.concatenate(angles, axis=1)

    def corners(self, side: int) -> list[tuple[Integers, Floats]]:
        """Return the rows of a square table around each patch, and their shares: (N,) each.

        The corners of the image are those of the square, whose other vectors are mixed linearly.
        """
        below, above, down = _between(self.row, side)
        left, right, aside = _between(self.column, side)
        return [
            (below * side + left, (1 - down) * (1 - aside)),
            (below * side + right, (1 - down) * aside),
            (above * side + left, down * (1 - aside)),
            (above * side + right, down * aside),
        ]


def _between(place: Integers, side: int) -> tuple[Integers, Integers, Floats]:
    """Return the two of `side` rows around each place, and the share of the second."""
    exact = place * ((side - 1) / max(int(place.max()), 1))
    first = np.minimum(exact.astype(np.int64), side - 1)
    return first, np.minimum(first + 1, side - 1), (exact - first).astype(np.float32)


@dataclass(frozen=True)
class Windows:
    """Square windows of an image.

    blocks: the places of all blocks of patches in row order, window by window. counts: of the
    blocks of each window.
    """

    blocks: Integers
    counts: Integers

    @classmethod
    def of(cls, rows: int, columns: int, side: int) -> "Windows":
        """Divide a grid of blocks into windows of `side`, of which the last may be smaller."""
        row, column = np.indices((rows, columns)).reshape(2, -1)
        window = row // side * columns + column // side
        return cls(np.argsort(window, kind="stable"), np.unique(window, return_counts=True)[1])

    def patches(self, block: int) -> Integers:
        """Return the places of all patches, window by window. block: patches of a block."""
        places: Integers = (self.blocks[:, None] * block + np.arange(block)).ravel()
        return places
