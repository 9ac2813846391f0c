"""Writing of a table as safetensors, row by row, because it may exceed the memory."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats

_HEADER = 248  # bytes; the table then begins at a multiple of 64


class TableWriter:
    """Writer of a safetensors file with one float32 table, whose length is known at the end."""

    def __init__(self, path: Path, name: str, width: int) -> None:
        """name: name of the tensor. width: number of columns."""
        self._file, self._name, self._width = path.open("wb"), name, width
        self.rows = 0
        self._file.write(bytes(8 + _HEADER))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        size = 4 * self.rows * self._width
        part = {"dtype": "F32", "shape": [self.rows, self._width], "data_offsets": [0, size]}
        header = json.dumps({self._name: part}).encode().ljust(_HEADER)
        self._file.seek(0)
        self._file.write(_HEADER.to_bytes(8, "little") + header)
        self._file.close()

    def write(self, rows: Floats, words: Sequence[str] = ()) -> None:
        """Append rows (N, D); raises ModelError for NaN or infinity. words: those of the rows."""
        if not np.isfinite(rows).all():
            index = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            row = self.rows + index
            name = f"word {row + 1} ({words[index]!r})" if words else f"row {row}"
            raise ModelError(f"the vector of {name} has NaN or infinity")
        self._file.write(np.ascontiguousarray(rows, dtype="<f4").data)
        self.rows += len(rows)
