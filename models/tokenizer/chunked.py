"""Tokenise a long text piece by piece, with the same tokens as at once."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import tokenizers

from models.tokenizer import word_cache
from models.tokenizer.cooperative import Steps
from models.tokenizer.special_tokens import SpecialTokens
from models.tokenizer.split_points import SplitPoints
from models.tokenizer.truncation import Side

T = TypeVar("T")
Place = tuple[int, int]
Read = Callable[[tokenizers.Encoding, int], list[T]]


class ChunkedTokenizer:
    """Tokenises pieces of a text, each between the special tokens of a whole text."""

    def __init__(
        self, rust: tokenizers.Tokenizer, frame: SpecialTokens, split_points: SplitPoints, size: int
    ) -> None:
        """size: characters that are tokenised at once, or up to twice as many."""
        self._rust, self._frame, self._split_points, self._size = rust, frame, split_points, size
        self._ids = word_cache.fastest(rust, frame.prefix, frame.suffix)

    def once(self, text: str) -> bool:
        """Whether a text is one piece."""
        return len(text) <= 2 * self._size

    def places(self, text: str) -> Iterator[Place]:
        """Where the pieces of a text start and stop; raises UnsplittableTextError."""
        return self._split_points.pieces(text, self._size)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts of one piece."""
        return self._ids.of(texts)

    def ids_at(self, text: str, place: Place) -> list[int]:
        """The ids of a piece."""
        return self._ids.of([text[slice(*place)]])[0]

    def read_at(
        self, text: str, place: Place, read: Read[T], shift: int = 0, special: bool = True
    ) -> list[T]:
        """What is read of the encoding of a piece. shift: of its offsets, for that."""
        start, stop = place
        # At the start of a text, some tokenizers tell another place of a token with a space.
        before = text[max(start - 1, 0) : start]
        encoding = self._encoding(before + text[start:stop], special)
        found = read(encoding, start - len(before) + shift)
        first = len(self._frame.prefix) if special else 0
        del found[first : first + len(self._encoding(before, special=False).ids)]
        return found

    def each(self, text: str, read: Read[T], shift: int, special: bool) -> Iterator[list[T]]:
        """The same of each piece, in one frame."""
        frame = self._frame if special else SpecialTokens([], [])
        for place in self.places(text):
            found = self.read_at(text, place, read, shift, special)
            low = len(frame.prefix) if place[0] else 0
            high = len(found) - (len(frame.suffix) if place[1] < len(text) else 0)
            yield found[low:high]

    def outer(
        self, text: str, side: Side, most: int, read: Callable[[str, Place], list[T]]
    ) -> Steps[list[T]]:
        """Of the first pieces of a text, or the last: all tokens, or more than `most`."""
        found: list[T] = []
        places = self.places(text)
        for place in places if side == "right" else reversed(list(places)):
            more = read(text, place)
            found = self._frame.join(*((found, more) if side == "right" else (more, found)))
            if len(found) > most:
                break
            yield
        return found

    def _encoding(self, text: str, special: bool) -> tokenizers.Encoding:
        # `encode` would keep all other threads of Python waiting, for seconds where a text is long.
        return self._rust.encode_batch([text], add_special_tokens=special)[0]
