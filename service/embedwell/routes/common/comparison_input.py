"""The inputs `a` and `b` of /similarity: texts, images or vectors."""

from typing import Annotated, Any

import numpy as np
from pydantic import Discriminator, FiniteFloat, Tag

from embedwell.errors import BadRequest, Path
from embedwell.inputs.request_inputs import ImageInput
from embedwell.routes.common.body import FAIL_FAST, Image, is_image
from embedwell_models.vectors import Floats

TextsByPath = dict[Path, str | ImageInput]
"""Texts and images by their path in the request."""


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "<text>"
    if is_image(value):
        return "<image>"
    vectors = isinstance(value, list) and value and isinstance(value[0], list)
    return "<vectors>" if vectors else "<side>"


_Item = Annotated[
    Annotated[str, Tag("<text>")] | Image,
    Discriminator(lambda value: "<image>" if is_image(value) else "<text>"),
]
ComparisonInput = Annotated[
    Annotated[str, Tag("<text>")]
    | Image
    | Annotated[list[_Item], FAIL_FAST, Tag("<side>")]
    | Annotated[list[Annotated[list[FiniteFloat], FAIL_FAST]], FAIL_FAST, Tag("<vectors>")],
    Discriminator(_kind),
]


def texts_by_path(value: Any, *path: str) -> TextsByPath:
    """Return the texts and images of the input at `path`; empty if the input is vectors."""
    if isinstance(value, str | ImageInput):
        return {path: value}
    if _kind(value) == "<vectors>":
        return {}
    return {(*path, index): text for index, text in enumerate(value)}


def vector_array(rows: Any, name: str) -> Floats:
    """Convert a list of vectors to float32 (B, D); raises BadRequest.

    name: the field's name, for error messages.
    """
    for index, row in enumerate(rows):
        if not row:
            raise BadRequest(
                f"{name}[{index}] is empty; send a vector with at least one number",
                param=name,
                index=index,
            )
        if len(row) != len(rows[0]):
            raise BadRequest(
                f"{name}[{index}] has {len(row)} numbers, but {name}[0] has {len(rows[0])}; "
                "all vectors must have the same length",
                param=name,
                index=index,
            )
    with np.errstate(over="ignore"):
        vectors = np.array(rows, dtype=np.float64).astype(np.float32)
    for index in map(int, np.flatnonzero(~np.isfinite(vectors).all(axis=1))):
        raise BadRequest(
            f"{name}[{index}] has a number that float32 cannot represent", param=name, index=index
        )
    return vectors
