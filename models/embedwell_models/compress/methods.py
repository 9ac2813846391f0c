"""The forms in which a compressed table is stored, and the parts of each form."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from embedwell_models.compress.codes import product_quantize
from embedwell_models.compress.hashed import fit_pool
from embedwell_models.compress.table import quantize_rows
from embedwell_models.compress.tiers import Band, Tier, as_parts, split_rows
from embedwell_models.errors import ModelError
from embedwell_models.tables.names import CODEBOOKS, CODES, IMPORTANCE, POOL, SCALES, TABLE
from embedwell_models.tables.table import Array
from embedwell_models.vectors import Floats


@dataclass(frozen=True)
class Compression:
    """Options of the compression of a table.

    corpus: texts whose words remain; None for all words. dimensions: None for all. int8: whether
    rows are 8-bit integers, with a scale for each row. codes: bytes of a row, each an index into a
    codebook; None for no codes. tiers: bands of rows, the most frequent first; None for no tiers.
    hash_rows: size of the pool that all rows share; None for no pool.

    Raises ModelError for options that exclude each other.
    """

    corpus: Sequence[str] | None = None
    dimensions: int | None = None
    int8: bool = False
    codes: int | None = None
    tiers: Sequence[Band] | None = None
    hash_rows: int | None = None

    def __post_init__(self) -> None:
        forms = {"codes": self.codes, "hash rows": self.hash_rows, "tiers": self.tiers}
        chosen = [name for name, value in forms.items() if value]
        if len(chosen) > 1 or (self.int8 and chosen not in ([], ["tiers"])):
            names = " and ".join([*chosen, *["int8"] * self.int8])
            raise ModelError(f"{names} exclude each other; choose one form (int8 goes with tiers)")

    def parts(self, rows: Floats) -> dict[str, Array]:
        """Return the stored parts of rows (V, D), by our names."""
        if self.codes:
            codes, codebooks = product_quantize(rows, self.codes)
            return {CODES: codes, CODEBOOKS: codebooks}
        if self.hash_rows:
            return dict(zip((POOL, IMPORTANCE), fit_pool(rows, self.hash_rows), strict=True))
        if self.tiers:
            return self._tiers(split_rows(rows, self.tiers))
        if self.int8:
            return dict(zip((TABLE, SCALES), quantize_rows(rows), strict=True))
        return {TABLE: np.ascontiguousarray(rows)}

    def _tiers(self, tiers: Sequence[Tier]) -> dict[str, Array]:
        if not self.int8:
            return as_parts(tiers)
        integers, scales = zip(*(quantize_rows(values) for values, _ in tiers), strict=True)
        directions = [directions for _, directions in tiers]
        parts = as_parts(list(zip(integers, directions, strict=True)))
        return parts | {SCALES: np.concatenate(scales)}
