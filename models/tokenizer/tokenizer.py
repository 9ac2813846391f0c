"""Text to token ids and back, telling what was cut."""

import json
import math
import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import tokenizers
from tokenizers import normalizers

from models.errors import ModelError
from models.tokenizer import vocabulary
from models.tokenizer.chunked import ChunkedTokenizer
from models.tokenizer.cooperative import Steps, finish
from models.tokenizer.special_tokens import SpecialTokens
from models.tokenizer.split_points import SplitPoints
from models.tokenizer.token import Token, outline_of, tokens_of
from models.tokenizer.truncation import Side

__all__ = ["Ids", "Side", "Token", "Tokenizer"]

_CHARACTERS = 16  # of one token, a number that the mean of a text hardly exceeds
_PIECE = 1 << 16  # characters: a tenth of a second, and 40 MB where each is a token


@dataclass(frozen=True, slots=True)
class Ids:
    """A text as token ids, special ones included.

    dropped: how many tokens were cut off; at least so many where a long text was not read to its
    end, which a caller must ask for.
    """

    ids: list[int]
    dropped: int = 0

    def left(self, first: int, side: Side) -> int:
        """How many of its first tokens there still are, after a cut at that side."""
        return max(first - self.dropped, 0) if side == "left" else first


class Tokenizer:
    """The tokenizer of a model's folder, read without its padding, truncation and dropout.

    prefix, suffix: the special ids that it puts before and after every text. side: where a text
    that is too long is cut unless a caller says where. reach: characters of a long text that are
    read, as a rule, for what the model reads.
    """

    def __init__(  # noqa: PLR0913 - most by name
        self,
        folder: Path,
        max_length: int,
        lowercase: bool = False,
        *,
        side: Side | None = None,
        bare: bool = False,
        unknown: bool = True,
        piece: int = _PIECE,
        unbroken: int = sys.maxsize,
    ) -> None:
        """side: None: as the folder's files say. unknown: tokens that are not known are kept.

        bare: tokenizer.json alone counts, and a text gets no special tokens.

        piece: characters that are read at once, or up to twice as many. unbroken: where a text
        cannot be cut, the most that are; what decides all that the model reads is never too many.
        """
        found = vocabulary.read(folder, bare)
        self._rust, self.side = found.rust, side or found.side
        if lowercase:
            own = [] if self._rust.normalizer is None else [self._rust.normalizer]
            self._rust.normalizer = normalizers.Sequence([normalizers.Lowercase(), *own])
        self._lost = None if unknown else _unknown(self._rust)
        self.max_length = max_length
        self.kind = type(self._rust.model).__name__
        self.vocab_size: int = self._rust.get_vocab_size()
        # Added tokens may leave a gap behind the others.
        self.highest = max(self.vocab_size - 1, *self._rust.get_added_tokens_decoder(), 0)
        self._frame = SpecialTokens.of(self._rust)
        self.prefix, self.suffix = self._frame.prefix, self._frame.suffix
        if max_length <= len(self._frame):
            raise ModelError(f"{folder}: a length of {max_length} leaves no room for a text")
        self.reach = 2 * max_length * _CHARACTERS
        self._excerpts = SplitPoints(self._rust, max(unbroken, self.reach))
        self._pieces = ChunkedTokenizer(self._rust, self._frame, self._excerpts, piece)
        self._short = min(self.reach, 2 * piece)  # characters: no part of a text is left out

    def encode(self, texts: Sequence[str], side: Side | None = None, count: float = 0) -> list[Ids]:
        """Token ids of each text, at most max_length, cut at `side`, by default the model's.

        count: how many tokens of a long text are read to tell how many were cut off. Raises
        UnsplittableTextError.
        """
        return finish(self.encoded(texts, side, count))

    def encoded(
        self, texts: Sequence[str], side: Side | None = None, count: float = 0
    ) -> Steps[list[Ids]]:
        """The same in steps."""
        side = side or self.side
        if all(len(text) <= self._short for text in texts):
            return [self._known(self.cut(ids, side)) for ids in self._pieces.ids(texts)]
        return (yield from self._excerpted(texts, side, count))

    def _excerpted(self, texts: Sequence[str], side: Side, count: float) -> Steps[list[Ids]]:
        parts = [self._part(text, side, count) for text in texts]
        rows = iter(self._pieces.ids([part for part in parts if self._pieces.once(part)]))
        found = []
        for part, text in zip(parts, texts, strict=True):
            ids = next(rows) if self._pieces.once(part) else (yield from self._outer(part, side))
            if self._partial(ids, part, text):
                ids = yield from self._outer(text, side)
            row = self.cut(ids, side)
            if self._uncounted(row, text, count):
                row = Ids(row.ids, (yield from self.length(text, count)) - self.max_length)
            found.append(self._known(row))
        return found

    def cut(self, ids: Sequence[int], side: Side | None = None, most: int | None = None) -> Ids:
        """At most `most` ids, by default max_length; the special ids around a text stay."""
        most = most or self.max_length
        dropped = len(ids) - most
        if dropped <= 0:
            return Ids(list(ids))
        return Ids([ids[i] for i in self._frame.kept(ids, most, side or self.side)], dropped)

    def enough(self, first: int, side: Side) -> int:
        """The `count` of `encode` that tells how many of a text's first tokens there still are."""
        return self.max_length + first if first and side == "left" else 0

    def ids(self, text: str) -> Steps[Sequence[int]]:
        """All token ids of a text, in steps, without special tokens.

        Raises UnsplittableTextError.
        """
        found = array("i")
        for place in self._pieces.places(text):
            inner = self._frame.inner(self._pieces.ids_at(text, place))
            found.extend(i for i in inner if i != self._lost)
            yield
        return found

    def length(self, text: str, most: float = math.inf, special: bool = True) -> Steps[int]:
        """Number of tokens of a text, in steps, or some number above `most`.

        Raises UnsplittableTextError.
        """
        total = len(self._frame) if special else 0
        for place in self._pieces.places(text):
            total += len(self._frame.inner(self._pieces.ids_at(text, place)))
            if total > most:
                break
            yield
        return total

    def prompt_length(self, prompt: str) -> int:
        """How many tokens a prompt is, as sentence-transformers counts them.

        Those of the prompt alone, special ones before it included, without one at the end.
        """
        ids = self.encode([prompt])[0].ids
        added = self._rust.get_added_tokens_decoder()
        return len(ids) - any(i in added and added[i].special for i in ids[-1:])

    def tokens(self, text: str, prompt: str = "", special: bool = True) -> list[Token]:
        """All tokens of a prompt and a text; raises UnsplittableTextError."""
        return list(chain.from_iterable(self.pieces(text, prompt, special)))

    def pieces(self, text: str, prompt: str = "", special: bool = True) -> Iterator[list[Token]]:
        """The same of one piece after the other."""
        read = partial(tokens_of, text=text)
        for found in self._pieces.each(prompt + text, read, -len(prompt), special):
            yield [token for token in found if token.id != self._lost]

    def outline(
        self, text: str, prompt: str = "", special: bool = True
    ) -> Iterator[list[tuple[int, bool]]]:
        """The id of each, and whether it is no part of the text, which is known far sooner."""
        for found in self._pieces.each(prompt + text, outline_of, -len(prompt), special):
            yield [(id, outside) for id, outside in found if id != self._lost]

    def describe(
        self, text: str, prompt: str = "", side: Side | None = None, count: float = 0
    ) -> tuple[Ids, list[Token]]:
        """What `encode` gives for a prompt and a text, and the token of each id."""
        return finish(self.described(text, prompt, side, count))

    def described(
        self, text: str, prompt: str = "", side: Side | None = None, count: float = 0
    ) -> Steps[tuple[Ids, list[Token]]]:
        """The same in steps."""
        side = side or self.side
        whole = prompt + text
        part = self._part(whole, side, count)
        found = yield from self._outer_tokens(part, side, whole, text)
        if self._partial(found, part, whole):
            found = yield from self._outer_tokens(whole, side, whole, text)
        ids = [token.id for token in found]
        row = self.cut(ids, side)
        kept = self._frame.kept(ids, self.max_length, side) if row.dropped else [*range(len(ids))]
        if self._uncounted(row, whole, count):
            row = Ids(row.ids, (yield from self.length(whole, count)) - self.max_length)
        return self._known(row), [found[i] for i in kept if ids[i] != self._lost]

    def name(self, id: int) -> str:
        """What a token is called; raises KeyError for an id that is none's."""
        found: str | None = self._rust.id_to_token(id)
        if found is None:
            raise KeyError(id)
        return found

    def decode(self, ids: Sequence[Sequence[int]], skip_special: bool = True) -> list[str]:
        """The text of each sequence of ids."""
        return self._rust.decode_batch([list(row) for row in ids], skip_special_tokens=skip_special)

    def _known(self, row: Ids) -> Ids:
        if self._lost not in row.ids:
            return row
        return Ids([i for i in row.ids if i != self._lost], row.dropped)

    def _part(self, text: str, side: Side, count: float) -> str:
        if count and self._pieces.once(text):
            return text
        return self._excerpts.of(text, side, self.reach // 2)

    def _partial(self, found: Sequence[object], part: str, text: str) -> bool:
        # One token more than is kept: the outermost of an excerpt may be a part of another.
        return part is not text and len(found) <= self.max_length

    def _uncounted(self, row: Ids, text: str, count: float) -> bool:
        read = row.dropped + self.max_length
        return bool(row.dropped) and read < count and not self._pieces.once(text)

    def _outer(self, text: str, side: Side) -> Steps[list[int]]:
        return self._pieces.outer(text, side, self.max_length, self._pieces.ids_at)

    def _outer_tokens(self, part: str, side: Side, whole: str, text: str) -> Steps[list[Token]]:
        # What is cut off at the left is the prompt's first.
        shift = len(text) - (len(part) if side == "left" else len(whole))
        read = partial(self._pieces.read_at, read=partial(tokens_of, text=text), shift=shift)
        return self._pieces.outer(part, side, self.max_length, read)


def _unknown(rust: tokenizers.Tokenizer) -> int | None:
    model = json.loads(rust.to_str())["model"]
    if "unk_id" in model:  # of Unigram
        return model["unk_id"]  # type: ignore[no-any-return]
    return rust.token_to_id(model.get("unk_token") or "")
