"""Vectors of texts or of their tokens, and a window of texts, each distinct one computed once."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from embedwell_models.vectors import Floats

_SECONDS = 1.0  # of texts that are begun together
_FIRST_TEXTS, _MAX_TEXTS = 8, 1024  # their number, before it is known how long they take; at most


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

    @property
    def min_texts(self) -> int:
        """Number of texts to begin together, if there are as many; fewer would be slower."""

    def begin(self, texts: Sequence[Any], advance: Advance) -> Pending:
        """Begin to embed distinct texts, or images, of ascending length.

        Returns when other texts should be begun, so that no worker of the model is idle. Raises
        BulkError.
        """


class LocalEncoder(ABC):
    """A TextEncoder in this process, which computes all vectors before `begin` returns."""

    min_texts: ClassVar[int] = 1

    def begin(self, texts: Sequence[Any], advance: Advance) -> Pending:
        """Like TextEncoder.begin."""
        computed: Future[Computed] = Future()
        computed.set_result(self.embed(texts, advance))
        return computed

    @abstractmethod
    def embed(self, texts: Sequence[Any], advance: Advance) -> Computed:
        """Return the vectors of texts, or of images, and the rejected ones."""


@dataclass(frozen=True)
class Finished:
    """The results of n of the distinct texts of a window.

    rows: their places among the distinct texts (n,). vectors, rejected: see Encoded; `rejected` has
    places among these n.
    """

    rows: Sequence[int]
    vectors: Vectors
    rejected: Mapping[int, str]


@dataclass(frozen=True)
class Window:
    """B texts, or images, that are being embedded.

    distinct: those that are computed. finished: results of an earlier run, which are not computed
    again.
    """

    texts: Sequence[Any]
    distinct: Sequence[Any]
    finished: Finished | None = None
    _begun: "list[tuple[Sequence[int], Pending]]" = field(default_factory=list)

    @classmethod
    def of(cls, texts: Sequence[Any], finished: Finished | None = None) -> "Window":
        """Order any texts by length, each distinct one once."""
        return cls(texts, sorted(dict.fromkeys(texts), key=len), finished)

    @property
    def texts_left(self) -> int:
        """Number of texts without a finished result."""
        finished = {self.distinct[row] for row in self.finished.rows} if self.finished else ()
        return sum(text not in finished for text in self.texts)

    def begin(self, encoder: TextEncoder, advance: Advance) -> None:
        """Like TextEncoder.begin, some texts after others, so that an interruption loses few."""
        finished = {*self.finished.rows} if self.finished else set[int]()
        left = [row for row in range(len(self.distinct)) if row not in finished]
        first, size = 0, _FIRST_TEXTS
        while first < len(left) or not (self._begun or self.finished):
            start, size = time.monotonic(), max(size, encoder.min_texts)
            rows = left[first : first + size]
            self._begun.append((rows, encoder.begin([self.distinct[row] for row in rows], advance)))
            first += size
            share = _SECONDS / max(time.monotonic() - start, 1e-6)
            size = max(1, min(int(size * min(share, 2)), _MAX_TEXTS))

    def done(self) -> bool:
        """Whether `result` would not wait."""
        return all(pending.done() for _, pending in self._begun)

    def results(self) -> list[Finished]:
        """Return all results that there are, without waiting."""
        done = [Finished(rows, *each.result()) for rows, each in self._begun if each.done()]
        return [*([self.finished] if self.finished else []), *done]

    def result(self) -> Encoded:
        """Wait for the vectors. Raises BulkError."""
        for _, pending in self._begun:
            pending.result()
        all_finished = join(self.results())
        places = {self.distinct[row]: place for place, row in enumerate(all_finished.rows)}
        order = np.fromiter(map(places.__getitem__, self.texts), np.intp, len(self.texts))
        rejected = all_finished.rejected
        reasons = {
            i: rejected[place] for i, place in enumerate(order.tolist()) if place in rejected
        }
        return Encoded(all_finished.vectors[order], reasons, len(self.distinct))


def join(parts: Sequence[Finished]) -> Finished:
    """Return the results of several parts of a window, of which there is at least one."""
    rows, rejected = list[int](), dict[int, str]()
    for part in parts:
        rejected |= {len(rows) + place: reason for place, reason in part.rejected.items()}
        rows += part.rows
    return Finished(rows, _join_vectors([part.vectors for part in parts]), rejected)


def _join_vectors(parts: Sequence[Vectors]) -> Vectors:
    of_tokens = [part for part in parts if isinstance(part, TokenVectors)]
    if of_tokens:
        each = [vectors for part in of_tokens for vectors in part.each]
        return TokenVectors(each, of_tokens[0].dim)
    dense = [part for part in parts if not isinstance(part, TokenVectors)]
    return dense[0] if len(dense) == 1 else np.concatenate(dense)


def embed_window(encoder: TextEncoder, texts: Sequence[str], advance: Advance) -> Encoded:
    """Embed B texts; each distinct text is computed once. Raises BulkError."""
    window = Window.of(texts)
    window.begin(encoder, advance)
    return window.result()
