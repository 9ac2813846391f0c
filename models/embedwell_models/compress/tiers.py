"""Tiers of a table: fewer dimensions for the rows of rare words.

V rows, D dimensions. Baevski and Auli 2018 (arXiv 1809.10853), "Adaptive input representations for
neural language modeling".
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from embedwell_models.compress.table import principal_directions
from embedwell_models.errors import ModelError
from embedwell_models.tables.names import DIRECTIONS, TIER
from embedwell_models.tables.table import Array, blocks
from embedwell_models.vectors import Floats

Tier = tuple[Array, Floats | None]
"""Numbers (n, d), and their directions (d, D); None where d is D."""
_REST = "rest"
_TIER = re.compile(rf"([1-9]\d*|{_REST}):([1-9]\d*)")


@dataclass(frozen=True)
class Band:
    """Rows of one tier: how many, None for all that remain, and their dimensions."""

    rows: int | None
    dimensions: int


def parse_bands(text: str) -> list[Band]:
    """Read `20000:300,50000:100,rest:25`: how many rows, and of how many dimensions.

    Raises ModelError for another text; the last part, and no other, is of the rest.
    """
    matches = [_TIER.fullmatch(part.strip()) for part in text.split(",")]
    pairs = [match.groups() for match in matches if match]
    is_rest = [rows == _REST for rows, _ in pairs]
    if len(pairs) < len(matches) or is_rest != [False] * (len(pairs) - 1) + [True]:
        raise ModelError(f"{text!r} are no tiers: write them as 20000:300,50000:100,rest:25")
    return [Band(None if rows == _REST else int(rows), int(size)) for rows, size in pairs]


def split_rows(rows: Floats, bands: Sequence[Band]) -> list[Tier]:
    """Return the tiers of rows (V, D).

    The directions are the principal ones of the tier's rows; None for as many as dimensions, whose
    rows stay as they are. Tiers after the last row are left out. Raises ModelError for more
    dimensions than the rows have.
    """
    tiers: list[Tier] = []
    start = 0
    for band in bands:
        stop = len(rows) if band.rows is None else min(start + band.rows, len(rows))
        part, start = rows[start:stop], stop
        if not len(part):
            continue
        if band.dimensions == rows.shape[1]:
            tiers.append((part, None))
            continue
        directions = principal_directions(part, band.dimensions)
        values = np.concatenate([block @ directions for block in blocks(part)])
        tiers.append((values, np.ascontiguousarray(directions.T)))
    return tiers


def as_parts(tiers: Sequence[Tier]) -> dict[str, Array]:
    """Return the parts of a table of tiers, by our names."""
    parts: dict[str, Array] = {}
    for index, (values, directions) in enumerate(tiers):
        parts[f"{TIER}{index}"] = np.ascontiguousarray(values)
        if directions is not None:
            parts[f"{DIRECTIONS}{index}"] = directions
    return parts
