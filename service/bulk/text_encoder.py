"""Embed a window of texts: each distinct text once, sorted by length."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from models.vectors import Floats

Advance = Callable[[int], object]
"""Called with the number of texts that were computed since the last call."""


@dataclass(frozen=True)
class Encoded:
    """Vectors (B, dim) of B texts. rejected: why texts have none, by index; their rows are zeros.

    computed: the number of distinct texts.
    """

    vectors: Floats
    rejected: Mapping[int, str]
    computed: int


class TextEncoder(Protocol):
    """A model, loaded here or served elsewhere."""

    @property
    def dim(self) -> int: ...

    @property
    def description(self) -> Mapping[str, Any]:
        """All that decides the vectors: model, fingerprint, precision, prompt, as JSON."""

    def embed(self, texts: Sequence[str], advance: Advance) -> tuple[Floats, Mapping[int, str]]:
        """Vectors (B, dim) of distinct texts of ascending length, and those rejected: see Encoded.

        Raises BulkError.
        """


def embed_window(encoder: TextEncoder, texts: Sequence[str], advance: Advance) -> Encoded:
    """Embed B texts, of which each distinct one is computed once. Raises BulkError."""
    distinct = sorted(dict.fromkeys(texts), key=len)
    vectors, rejected = encoder.embed(distinct, advance)
    rows = {text: row for row, text in enumerate(distinct)}
    order = np.fromiter(map(rows.__getitem__, texts), dtype=np.intp, count=len(texts))
    reasons = {index: rejected[row] for index, row in enumerate(order.tolist()) if row in rejected}
    return Encoded(vectors[order], reasons, len(distinct))
