"""The vectors of a model's vocabulary, of a model that is a table, as its file is mapped."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.checkpoint import safetensors_files
from models.families.word_vectors import FAMILY, SCALES, TABLE
from models.folder import Folder
from models.tokenizer.words.options import WordOptions
from models.vectors import Floats

_STATIC_TABLES = ("embedding.weight", "embeddings")
_BFLOAT16 = "BF16"


@dataclass(frozen=True)
class WordTable:
    """A row for each of N words, converted to float32 when it is read.

    table: of the file. bfloat16: whether it holds the bits of such numbers. rows: (N,) of the words
    in it. scales: (N,) that multiply them. Either is None if it changes nothing.
    """

    table: npt.NDArray[np.generic]
    bfloat16: bool
    count: int
    rows: npt.NDArray[np.generic] | None = None
    scales: npt.NDArray[np.generic] | None = None

    @classmethod
    def of(cls, folder: Folder) -> "WordTable | None":
        """Map the table of a model; None for a model with layers. Raises ModelError."""
        family = folder.spec.config.family
        if family not in (FAMILY, "static", "model2vec"):
            return None
        path = next(
            path
            for path in safetensors_files.require_weight_files(folder.encoder)
            if {TABLE, *_STATIC_TABLES} & {*safetensors_files.map_arrays(path)}
        )
        arrays, headers = safetensors_files.map_arrays(path), safetensors_files.headers(path.parent)
        name = next(name for name in (TABLE, *_STATIC_TABLES) if name in arrays)
        table, rows, scales = arrays[name], arrays.get("mapping"), arrays.get("weights")
        if family == FAMILY:
            subwords = WordOptions.read(folder.encoder).subwords
            rows, scales = None, arrays.get(SCALES)
            count = len(table) - (subwords.buckets if subwords else 0)
        else:
            count = folder.spec.config.vocab_size
        return cls(table, headers[name].dtype == _BFLOAT16, count, rows, scales)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, words: slice | npt.NDArray[np.int64]) -> Floats:
        """Return the vectors of some words (n, D)."""
        chosen = words if self.rows is None else self.rows[words].astype(np.int64)
        values = self.table[chosen]
        if self.bfloat16:  # the upper half of a float32
            values = (values.astype("<u4") << 16).view("<f4")
        vectors: Floats = values.astype(np.float32, copy=False)
        return vectors if self.scales is None else vectors * self._scales(words)

    def _scales(self, words: slice | npt.NDArray[np.int64]) -> Floats:
        assert self.scales is not None
        return self.scales[words].astype(np.float32)[:, None]
