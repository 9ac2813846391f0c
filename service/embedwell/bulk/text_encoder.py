"""Vectors of texts or of their tokens, and a window of texts, each distinct one computed once."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from embedwell_models.vectors import Floats


@dataclass(frozen=True)
class TokenVectors:
    """Vectors of the tokens of B inputs, (n, dim) for each; an input may have none."""

    each: Sequence[Floats]
    dim: int

    def __getitem__(self, chosen: npt.NDArray[np.intp] | Sequence[bool]) -> "TokenVectors":
        """Return those of some inputs, by their indices or by a mask, as an array does."""
        indices = np.arange(len(self.each))[chosen]
        return TokenVectors([self.each[index] for index in indices], self.dim)

    @property
    def rows(self) -> Floats:
        """The vectors of all inputs, one input after another: (N, dim)."""
        return np.concatenate([np.empty((0, self.dim), np.float32), *self.each])

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of vectors of each input: (B,)."""
        return np.array([len(vectors) for vectors in self.each], np.int64)


Vectors: TypeAlias = Floats | TokenVectors
"""A vector of each of B inputs (B, dim), or vectors of their tokens."""


Advance = Callable[[int], object]
"""Called with the number of texts that were computed since the last call."""


@dataclass(frozen=True)
class Encoded:
    """Vectors of B texts.

    rejected: why texts have no vector, by index; their vectors are zeros, or they have none.
    computed: number of distinct texts.
    """

    vectors: Vectors
    rejected: Mapping[int, str]
    computed: int

    @property
    def dense(self) -> Floats:
        """The vectors (B, dim), of a model with one for each text."""
        assert not isinstance(self.vectors, TokenVectors)
        return self.vectors


Computed = tuple[Vectors, Mapping[int, str]]
"""Vectors, and the rejected texts: see Encoded."""


class Pending(Protocol):
    """Texts that are being embedded."""

    def done(self) -> bool:
        """Whether `result` would not wait."""

    def result(self) -> Computed:
        """Return the result. Raises BulkError."""


class TextEncoder(Protocol):
    """A model that is loaded here or served elsewhere, for texts or for images."""

    @property
    def dim(self) -> int: ...

    @property
    def description(self) -> Mapping[str, Any]:
        """Everything that decides the vectors, for JSON: model, fingerprint, precision, prompt.

        A model with vectors of tokens has `"output": "multi"`.
        """

    def begin(self, texts: Sequence[Any], advance: Advance) -> Pending:
        """Begin to embed distinct texts, or images, of ascending length.

        Returns when other texts should be begun, so that no worker of the model is idle. Raises
        BulkError.
        """


class LocalEncoder(ABC):
    """A TextEncoder in this process, which computes all vectors before `begin` returns."""

    def begin(self, texts: Sequence[Any], advance: Advance) -> Pending:
        """Like TextEncoder.begin."""
        computed: Future[Computed] = Future()
        computed.set_result(self.embed(texts, advance))
        return computed

    @abstractmethod
    def embed(self, texts: Sequence[Any], advance: Advance) -> Computed:
        """Return the vectors of texts, or of images, and the rejected ones."""


@dataclass(frozen=True)
class Window:
    """B texts, or images, that are being embedded.

    distinct: those that are computed.
    """

    texts: Sequence[Any]
    distinct: Sequence[Any]
    pending: Pending

    @classmethod
    def begin(cls, encoder: TextEncoder, texts: Sequence[Any], advance: Advance) -> "Window":
        """Like TextEncoder.begin, for any texts."""
        distinct = sorted(dict.fromkeys(texts), key=len)
        return cls(texts, distinct, encoder.begin(distinct, advance))

    def result(self) -> Encoded:
        """Wait for the vectors. Raises BulkError."""
        vectors, rejected = self.pending.result()
        rows = {text: row for row, text in enumerate(self.distinct)}
        order = np.fromiter(map(rows.__getitem__, self.texts), np.intp, len(self.texts))
        reasons = {i: rejected[row] for i, row in enumerate(order.tolist()) if row in rejected}
        return Encoded(vectors[order], reasons, len(self.distinct))


def embed_window(encoder: TextEncoder, texts: Sequence[str], advance: Advance) -> Encoded:
    """Embed B texts; each distinct text is computed once. Raises BulkError."""
    return Window.begin(encoder, texts, advance).result()
