"""Text to token ids and back, telling what was cut."""

import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from pathlib import Path
from typing import Literal

import tokenizers
from tokenizers import normalizers

from models import vocabulary
from models.errors import ModelError

Side = Literal["right", "left"]


@dataclass(frozen=True, slots=True)
class Ids:
    """A text as token ids, special ones included, and how many tokens were cut off."""

    ids: list[int]
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a text.

    start and stop: the characters that it has a part of, combining marks included, so that the
    tokens of one emoji's bytes all have that emoji. None for a token that shows no character: a
    special one, one of the prompt, or a space that the tokenizer adds or trims.
    text: those characters, else the token's name in the vocabulary.
    """

    id: int
    text: str
    special: bool
    start: int | None
    stop: int | None


class Tokenizer:
    """The tokenizer of a model's folder, read without its padding, truncation and dropout."""

    def __init__(self, folder: Path, max_length: int, lowercase: bool = False) -> None:
        self._rust = vocabulary.read(folder)
        if lowercase:
            own = [] if self._rust.normalizer is None else [self._rust.normalizer]
            self._rust.normalizer = normalizers.Sequence([normalizers.Lowercase(), *own])
        self.max_length = max_length
        self.vocab_size: int = self._rust.get_vocab_size()
        self._prefix, self._suffix = _frame(self._rust)
        if max_length <= len(self._prefix) + len(self._suffix):
            raise ModelError(f"{folder}: a length of {max_length} leaves no room for a text")

    def encode(self, texts: Sequence[str], side: Side = "right") -> list[Ids]:
        """Token ids of each text, at most max_length, cut at `side`."""
        batch = self._rust.encode_batch_fast(list(texts))
        return [self.cut(encoding.ids, side) for encoding in batch]

    def cut(self, ids: list[int], side: Side = "right") -> Ids:
        """At most max_length ids; the special ids around a text stay."""
        dropped = len(ids) - self.max_length
        if dropped <= 0:
            return Ids(ids)
        return Ids([ids[i] for i in self._kept(ids, side)], dropped)

    def tokens(
        self, text: str, prompt: str = "", side: Side | None = None, special: bool = True
    ) -> list[Token]:
        """The tokens of a prompt and a text, cut at `side` (None: not at all)."""
        encoding = self._rust.encode(prompt + text, add_special_tokens=special)
        # Each of these is made anew when it is asked for.
        kinds = zip(encoding.ids, encoding.tokens, encoding.special_tokens_mask, strict=True)
        places = _places(encoding.offsets, prompt, text)
        found = [_token(*kind, place, text) for kind, place in zip(kinds, places, strict=True)]
        return found if side is None else [found[i] for i in self._kept(encoding.ids, side)]

    def decode(self, ids: Sequence[Sequence[int]], skip_special: bool = True) -> list[str]:
        """The text of each sequence of ids."""
        return self._rust.decode_batch([list(row) for row in ids], skip_special_tokens=skip_special)

    def _kept(self, ids: Sequence[int], side: Side) -> list[int]:
        before = len(self._prefix) if list(ids[: len(self._prefix)]) == self._prefix else 0
        tail = len(ids) - len(self._suffix)
        after = len(ids) - tail if list(ids[tail:]) == self._suffix else 0
        body = range(before, len(ids) - after)
        room = self.max_length - before - after
        kept = body[:room] if side == "right" else body[max(len(body) - room, 0) :]
        return [*range(before), *kept, *range(len(ids) - after, len(ids))]


def _frame(rust: tokenizers.Tokenizer) -> tuple[list[int], list[int]]:
    # The special ids that the tokenizer puts before and after every text.
    marks = next(row for row in _samples(rust) if not all(special for _, special in row))
    prefix = [i for i, _ in takewhile(lambda mark: mark[1], marks)]
    suffix = [i for i, _ in takewhile(lambda mark: mark[1], reversed(marks))]
    return prefix, suffix[::-1]


def _samples(rust: tokenizers.Tokenizer) -> Iterator[list[tuple[int, int]]]:
    # A vocabulary without letters has no token for "a", and its normaliser may drop more.
    for text in chain(["a"], map(rust.id_to_token, range(rust.get_vocab_size()))):
        encoding = rust.encode(text or "")
        yield list(zip(encoding.ids, encoding.special_tokens_mask, strict=True))


def _places(
    offsets: Sequence[tuple[int, int]], prompt: str, text: str
) -> Iterator[tuple[int, int]]:
    starts = {start for start, stop in offsets if start < stop}
    whole = prompt + text
    for start, stop in offsets:
        yield start - len(prompt), _end(whole, stop, starts) - len(prompt)


def _end(text: str, stop: int, starts: Collection[int]) -> int:
    # A normaliser that composes or strips a mark leaves it without a token.
    while (
        0 < stop < len(text) and stop not in starts and unicodedata.category(text[stop])[0] == "M"
    ):
        stop += 1
    return stop


def _token(id: int, piece: str, special: int, place: tuple[int, int], text: str) -> Token:
    start, stop = max(place[0], 0), place[1]
    if special or start >= stop:
        return Token(id, piece, bool(special), None, None)
    return Token(id, text[start:stop], False, start, stop)
