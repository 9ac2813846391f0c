"""Tiers of a table: rows of rare words have fewer dimensions.

V rows, D dimensions. Baevski and Auli 2018 (arXiv 1809.10853), "Adaptive input representations for
neural language modeling".
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from embedwell_models.compress.table import principal_directions
from embedwell_models.errors import ModelError
from embedwell_models.tables.compressed import Tier
from embedwell_models.tables.stored import DIRECTIONS, TIER
from embedwell_models.tables.table import Array, blocks
from embedwell_models.vectors import Floats

_REST = "rest"
_TIER = re.compile(rf"([1-9]\d*|{_REST}):([1-9]\d*)")


@dataclass(frozen=True)
class Band:
    """Number of rows of one tier (None for all remaining rows) and their dimensions."""

    rows: int | None
    dimensions: int


def parse_bands(text: str) -> list[Band]:
    """Parse tiers such as `20000:300,50000:100,rest:25`, each ROWS:DIMENSIONS.

    Raises ModelError for another text. Only the last tier is `rest`.
    """
    matches = [_TIER.fullmatch(part.strip()) for part in text.split(",")]
    pairs = [match.groups() for match in matches if match]
    is_rest = [rows == _REST for rows, _ in pairs]
    if len(pairs) < len(matches) or is_rest != [False] * (len(pairs) - 1) + [True]:
        raise ModelError(f"{text!r} is not a list of tiers: write 20000:300,50000:100,rest:25")
    return [Band(None if rows == _REST else int(rows), int(size)) for rows, size in pairs]


def split_rows(rows: Floats, bands: Sequence[Band]) -> list[Tier]:
    """Split rows (V, D) into tiers.

    The directions of a tier are the principal directions of its rows. A tier that keeps all
    dimensions has no directions, and its rows stay as they are. Tiers after the last row are left
    out. Raises ModelError for more dimensions than the rows have.
    """
    tiers: list[Tier] = []
    start = 0
    for band in bands:
        stop = len(rows) if band.rows is None else min(start + band.rows, len(rows))
        part, start = rows[start:stop], stop
        if not len(part):
            continue
        if band.dimensions == rows.shape[1]:
            tiers.append(Tier(part, None))
            continue
        directions = principal_directions(part, band.dimensions)
        values = np.concatenate([block @ directions for block in blocks(part)])
        tiers.append(Tier(values, np.ascontiguousarray(directions.T)))
    return tiers


def as_parts(tiers: Sequence[Tier]) -> dict[str, Array]:
    """Return the stored parts of a table of tiers, by our names."""
    parts: dict[str, Array] = {}
    for index, tier in enumerate(tiers):
        parts[f"{TIER}{index}"] = np.ascontiguousarray(tier.values)
        if tier.directions is not None:
            parts[f"{DIRECTIONS}{index}"] = tier.directions
    return parts
