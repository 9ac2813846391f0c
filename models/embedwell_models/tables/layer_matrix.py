"""A matrix of a checkpoint that is computed whenever it is read."""

from collections.abc import Callable
from dataclasses import dataclass

from embedwell_models.errors import ModelError
from embedwell_models.tables.table import Chosen, QuantizedMatrix, is_finite
from embedwell_models.vectors import Floats


@dataclass(frozen=True)
class LayerMatrix(QuantizedMatrix):
    """Matrix (N, D) that is decoded as a whole whenever it is read, so that no copy stays.

    name: the layer's, for messages. size: N, D.
    """

    name: str
    size: tuple[int, int]
    decode: Callable[[], Floats]

    @property
    def shape(self) -> tuple[int, int]:
        """N, D."""
        return self.size

    def __getitem__(self, rows: Chosen) -> Floats:
        """Return some rows (n, D) as float32."""
        return self.to_float32()[rows]

    def rows(self, start: int, stop: int) -> "LayerMatrix":
        """Return consecutive rows as they are stored."""
        size = (stop - start, self.width)
        return LayerMatrix(self.name, size, lambda: self.to_float32()[start:stop])

    def to_float32(self) -> Floats:
        """Decode all rows (N, D); raises ModelError if the parts do not fit together."""
        try:
            decoded = self.decode()
        except (ValueError, IndexError) as error:
            raise ModelError(f"{self.name}: its parts do not fit: {error}") from None
        if decoded.shape != self.size:
            raise ModelError(f"{self.name}: its parts have the shapes of {decoded.shape}")
        return decoded

    def is_finite(self) -> bool:
        """Whether no number is NaN, infinity or TOO_LARGE."""
        return is_finite(self.to_float32())
