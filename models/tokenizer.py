"""Text to token ids and back, telling what was cut."""

import json
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from pathlib import Path

import tokenizers
from tokenizers import normalizers

from models import vocabulary, wordwise
from models.errors import ModelError
from models.excerpt import Excerpts
from models.truncation import Side

__all__ = ["Ids", "Side", "Token", "Tokenizer"]

_CHARACTERS = 16  # of one token, a number that the mean of a text hardly exceeds


@dataclass(frozen=True, slots=True)
class Ids:
    """A text as token ids, special ones included.

    dropped: how many tokens were cut off; at least so many where a long text was not read to its
    end, which a caller must ask for.
    """

    ids: list[int]
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a text.

    start and stop: the characters that it has a part of, with their combining marks, so that all
    tokens of one emoji's bytes have that emoji; equal where the tokenizer trims a space away. None
    for what is not part of the text: a special token, the prompt, a space put before the text.
    text: those characters, or the name of a token that has no place.
    """

    id: int
    text: str
    special: bool
    start: int | None
    stop: int | None

    @property
    def outside(self) -> bool:
        """Whether it is no part of the text."""
        return self.start is None


class Tokenizer:
    """The tokenizer of a model's folder, read without its padding, truncation and dropout.

    prefix, suffix: the special ids that it puts before and after every text. side: where a text
    that is too long is cut unless a caller says where.
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
    ) -> None:
        """side: None: as the folder's files say. unknown: tokens that are not known are kept.

        bare: tokenizer.json alone counts, and a text gets no special tokens.
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
        self.prefix, self.suffix = _frame(self._rust)
        if max_length <= len(self.prefix) + len(self.suffix):
            raise ModelError(f"{folder}: a length of {max_length} leaves no room for a text")
        self._excerpts = Excerpts(self._rust)
        self._ids = wordwise.fastest(self._rust, self.prefix, self.suffix)

    def encode(
        self, texts: Sequence[str], side: Side | None = None, count: bool = False
    ) -> list[Ids]:
        """Token ids of each text, at most max_length, cut at `side`, by default the model's.

        count: read long texts to their end, to tell how many tokens were cut off.
        """
        side = side or self.side
        parts = list(texts) if count else [self._part(text, side) for text in texts]
        rows = self._ids.of(parts)
        return [
            self._known(self.cut(ids if self._enough(ids, part, text) else self._whole(text), side))
            for ids, part, text in zip(rows, parts, texts, strict=True)
        ]

    def cut(self, ids: list[int], side: Side | None = None) -> Ids:
        """At most max_length ids; the special ids around a text stay."""
        dropped = len(ids) - self.max_length
        if dropped <= 0:
            return Ids(ids)
        return Ids([ids[i] for i in self._kept(ids, side or self.side)], dropped)

    def prompt_length(self, prompt: str) -> int:
        """How many tokens a prompt is, as sentence-transformers counts them.

        Those of the prompt alone, special ones before it included, without one at the end.
        """
        ids = self.encode([prompt])[0].ids
        added = self._rust.get_added_tokens_decoder()
        return len(ids) - any(i in added and added[i].special for i in ids[-1:])

    def tokens(self, text: str, prompt: str = "", special: bool = True) -> list[Token]:
        """All tokens of a prompt and a text."""
        encoding = self._encoded(prompt + text, special)
        found = _tokens(encoding, -len(prompt), text)
        return [token for token in found if token.id != self._lost]

    def describe(
        self, text: str, prompt: str = "", side: Side | None = None, count: bool = False
    ) -> tuple[Ids, list[Token]]:
        """What `encode` gives for a prompt and a text, and the token of each id."""
        side = side or self.side
        whole = prompt + text
        part = whole if count else self._part(whole, side)
        first = self._encoded(part)
        encoding = first if self._enough(first.ids, part, whole) else self._encoded(whole)
        shift = len(whole) - len(part) if encoding is first and side == "left" else 0
        found = _tokens(encoding, shift - len(prompt), text)
        row = self.cut(encoding.ids, side)
        kept = [found[i] for i in self._kept(encoding.ids, side)] if row.dropped else found
        return self._known(row), [token for token in kept if token.id != self._lost]

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

    def _part(self, text: str, side: Side) -> str:
        return self._excerpts.of(text, side, self.max_length * _CHARACTERS)

    def _encoded(self, text: str, special: bool = True) -> tokenizers.Encoding:
        # `encode` would keep all other threads of Python waiting, for seconds where a text is long.
        return self._rust.encode_batch([text], add_special_tokens=special)[0]

    def _enough(self, ids: list[int], part: str, text: str) -> bool:
        # One token more than is kept: the outermost of an excerpt may be a part of another.
        return part is text or len(ids) > self.max_length

    def _whole(self, text: str) -> list[int]:
        return self._ids.of([text])[0]

    def _kept(self, ids: Sequence[int], side: Side) -> list[int]:
        before = len(self.prefix) if list(ids[: len(self.prefix)]) == self.prefix else 0
        tail = len(ids) - len(self.suffix)
        after = len(ids) - tail if list(ids[tail:]) == self.suffix else 0
        body = range(before, len(ids) - after)
        room = self.max_length - before - after
        kept = body[:room] if side == "right" else body[max(len(body) - room, 0) :]
        return [*range(before), *kept, *range(len(ids) - after, len(ids))]


def _unknown(rust: tokenizers.Tokenizer) -> int | None:
    model = json.loads(rust.to_str())["model"]
    if "unk_id" in model:  # of Unigram
        return model["unk_id"]  # type: ignore[no-any-return]
    return rust.token_to_id(model.get("unk_token") or "")


def _frame(rust: tokenizers.Tokenizer) -> tuple[list[int], list[int]]:
    # The special ids that the tokenizer puts before and after every text.
    marks = next((row for row in _samples(rust) if not all(special for _, special in row)), [])
    prefix = [i for i, _ in takewhile(lambda mark: mark[1], marks)]
    suffix = [i for i, _ in takewhile(lambda mark: mark[1], reversed(marks))]
    return prefix, suffix[::-1]


def _samples(rust: tokenizers.Tokenizer) -> Iterator[list[tuple[int, int]]]:
    # A vocabulary without letters has no token for "a", and its normaliser may drop more.
    for text in chain(["a"], map(rust.id_to_token, range(rust.get_vocab_size()))):
        encoding = rust.encode(text or "")
        yield list(zip(encoding.ids, encoding.special_tokens_mask, strict=True))


def _tokens(encoding: tokenizers.Encoding, shift: int, text: str) -> list[Token]:
    # Each of these is made anew when it is asked for.
    kinds = zip(encoding.ids, encoding.tokens, encoding.special_tokens_mask, strict=True)
    places = [(start + shift, stop + shift) for start, stop in encoding.offsets]
    starts = {start for start, stop in places if start < stop}
    return [
        _token(*kind, (max(start, 0), _end(text, stop, starts)), text)
        for kind, (start, stop) in zip(kinds, places, strict=True)
    ]


def _end(text: str, stop: int, starts: Collection[int]) -> int:
    # A normaliser that composes or strips a mark leaves it without a token.
    while (
        0 < stop < len(text) and stop not in starts and unicodedata.category(text[stop])[0] == "M"
    ):
        stop += 1
    return stop


def _token(id: int, piece: str, special: int, place: tuple[int, int], text: str) -> Token:
    start, stop = place
    if special or stop <= 0:
        return Token(id, piece, bool(special), None, None)
    return Token(id, text[start:stop], False, start, stop)
