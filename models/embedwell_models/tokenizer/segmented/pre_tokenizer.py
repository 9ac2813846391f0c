"""Pre-tokenizer of a Rust tokenizer that splits texts in Python."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from tokenizers import NormalizedString, PreTokenizedString

_BLOCK = 256  # pieces; for each cut, the library counts characters from the start


class Piece(NamedTuple):
    """A part of a text, in characters. suffix: appended for the look-up in the vocabulary."""

    start: int
    stop: int
    suffix: str = ""


class PythonPreTokenizer(ABC):
    """Pre-tokenizer that splits a text into pieces; the text between pieces is left out.

    lowercase: whether pieces are lowercased after the split.
    """

    lowercase = False

    @abstractmethod
    def pieces(self, text: str) -> Sequence[Piece]:
        """Return the pieces of a normalized text in order; no piece is empty."""

    def pre_tokenize(self, text: PreTokenizedString) -> None:
        """Split a text; the library calls this."""
        blocks: deque[list[Piece]] = deque()

        def into_blocks(_: int, part: NormalizedString) -> list[NormalizedString]:
            pieces, parts = self.pieces(str(part)), []
            for first in range(0, len(pieces), _BLOCK):
                block = pieces[first : first + _BLOCK]
                start = block[0].start
                blocks.append([Piece(p.start - start, p.stop - start, p.suffix) for p in block])
                parts.append(_slice(part, start, block[-1].stop))
            return parts

        def into_pieces(_: int, part: NormalizedString) -> list[NormalizedString]:
            return [self._cut(part, piece) for piece in blocks.popleft()]

        text.split(into_blocks)
        text.split(into_pieces)

    def _cut(self, part: NormalizedString, piece: Piece) -> NormalizedString:
        cut = _slice(part, piece.start, piece.stop)
        if self.lowercase:
            cut.lowercase()
        if piece.suffix:
            cut.append(piece.suffix)
        return cut


def _slice(part: NormalizedString, start: int, stop: int) -> NormalizedString:
    cut = part[start:stop]
    assert cut is not None, "a piece is inside of its text"
    return cut
