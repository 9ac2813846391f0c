"""A side of a comparison: a text, texts or vectors."""

from typing import Annotated, Any

import numpy as np
from pydantic import Discriminator, FiniteFloat, Tag

from models.vectors import Floats
from service.api.body import FIRST
from service.errors import BadRequest, Path

Texts = dict[Path, str]
"""Texts by their places in the request."""


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "<text>"
    vectors = isinstance(value, list) and value and isinstance(value[0], list)
    return "<vectors>" if vectors else "<side>"


Side = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[list[str], FIRST, Tag("<side>")]
    | Annotated[list[Annotated[list[FiniteFloat], FIRST]], FIRST, Tag("<vectors>")],
    Discriminator(_kind),
]


def texts(side: Any, *path: str) -> Texts:
    """The texts of the side that is at a path; none of vectors."""
    if isinstance(side, str):
        return {path: side}
    if _kind(side) == "<vectors>":
        return {}
    return {(*path, index): text for index, text in enumerate(side)}


def vectors(side: Any, name: str) -> Floats:
    """The vectors of a side of them: (B, D); raises BadRequest."""
    for index, row in enumerate(side):
        if not row:
            raise BadRequest(f"{name}[{index}] is empty", param=name, index=index)
        if len(row) != len(side[0]):
            raise BadRequest(
                f"{name}[{index}] has {len(row)} numbers, {name}[0] has {len(side[0])}",
                param=name,
                index=index,
            )
    with np.errstate(over="ignore"):
        found = np.array(side, dtype=np.float64).astype(np.float32)
    for place in np.flatnonzero(~np.isfinite(found).all(axis=1)):
        raise BadRequest(
            f"{name}[{place}] has numbers beyond float32", param=name, index=int(place)
        )
    return found
