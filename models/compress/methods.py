"""The forms in which a smaller table is stored, and the parts that each has."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.compress.codes import product_quantize
from models.compress.table import quantize_rows
from models.errors import ModelError
from models.tables import names
from models.tables.table import Array
from models.vectors import Floats


@dataclass(frozen=True)
class Compression:
    """Options of a smaller table.

    corpus: texts whose words remain; None for all. dimensions: None for all. int8: whether rows are
    8-bit integers with a scale each. codes: bytes of a row, each the number of a vector in a
    codebook; None for none.

    Raises ModelError for options that exclude each other.
    """

    corpus: Sequence[str] | None = None
    dimensions: int | None = None
    int8: bool = False
    codes: int | None = None

    def __post_init__(self) -> None:
        if self.int8 and self.codes:
            raise ModelError("a table is stored in one way: give one of int8 and codes")

    def parts(self, rows: Floats) -> dict[str, Array]:
        """Return the parts of rows (V, D), by our names, as they are stored."""
        if self.codes:
            codes, codebooks = product_quantize(rows, self.codes)
            return {names.CODES: codes, names.CODEBOOKS: codebooks}
        if self.int8:
            return dict(zip((names.TABLE, names.SCALES), quantize_rows(rows), strict=True))
        return {names.TABLE: np.ascontiguousarray(rows)}
