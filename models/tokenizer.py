"""Text to token ids and back, telling what was cut."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Literal

import tokenizers
from tokenizers import normalizers

from models.errors import ModelError

Side = Literal["right", "left"]


@dataclass(frozen=True, slots=True)
class Ids:
    """A text as token ids, special ones included, and how many tokens were cut off."""

    ids: list[int]
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Token:
    """One token. start and stop are characters of the text, None for what is not part of it."""

    id: int
    text: str
    special: bool
    start: int | None
    stop: int | None


class Tokenizer:
    """A tokenizer.json of the `tokenizers` library, read without its padding and truncation."""

    def __init__(
        self,
        path: Path,
        max_length: int,
        lowercase: bool = False,
        *,
        special: bool = True,
        unknown: bool = True,
    ) -> None:
        """special: a text gets special tokens. unknown: tokens that are not known are kept."""
        try:
            self._rust = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing narrower
            raise ModelError(f"{path} cannot be read: {error}") from None
        self._rust.no_padding()
        self._rust.no_truncation()
        if lowercase:
            own = [] if self._rust.normalizer is None else [self._rust.normalizer]
            self._rust.normalizer = normalizers.Sequence([normalizers.Lowercase(), *own])
        if not special:
            self._rust.post_processor = None
        self._lost = None if unknown else _unknown(self._rust)
        self.max_length = max_length
        self.kind = type(self._rust.model).__name__
        self.vocab_size: int = self._rust.get_vocab_size()
        self._prefix, self._suffix = self._frame()
        if max_length <= len(self._prefix) + len(self._suffix):
            raise ModelError(f"{path}: a length of {max_length} leaves no room for a text")

    def _frame(self) -> tuple[list[int], list[int]]:
        # The special ids that the tokenizer puts before and after every text.
        sample = self._rust.encode("a")
        marks = list(zip(sample.ids, sample.special_tokens_mask, strict=True))
        prefix = [i for i, _ in takewhile(lambda mark: mark[1], marks)]
        suffix = [i for i, _ in takewhile(lambda mark: mark[1], reversed(marks))]
        return prefix, suffix[::-1]

    def encode(self, texts: Sequence[str], side: Side = "right") -> list[Ids]:
        """Token ids of each text, at most max_length, cut at `side`."""
        batch = self._rust.encode_batch_fast(list(texts))
        return [self._known(self.cut(encoding.ids, side)) for encoding in batch]

    def cut(self, ids: list[int], side: Side = "right") -> Ids:
        """At most max_length ids; the special ids around a text stay."""
        dropped = len(ids) - self.max_length
        if dropped <= 0:
            return Ids(ids)
        return Ids([ids[i] for i in self._kept(ids, side)], dropped)

    def prompt_length(self, prompt: str) -> int:
        """How many tokens a prompt is, as sentence-transformers counts them.

        Those of the prompt alone, special ones before it included, without one at the end.
        """
        ids = self.encode([prompt])[0].ids
        added = self._rust.get_added_tokens_decoder()
        return len(ids) - any(i in added and added[i].special for i in ids[-1:])

    def tokens(
        self, text: str, prompt: str = "", side: Side | None = None, special: bool = True
    ) -> list[Token]:
        """The tokens of a prompt and a text, cut at `side` (None: not at all)."""
        encoding = self._rust.encode(prompt + text, add_special_tokens=special)
        # Each of these is made anew when it is asked for.
        kinds = zip(encoding.ids, encoding.tokens, encoding.special_tokens_mask, strict=True)
        places = [(a - len(prompt), b - len(prompt)) for a, b in encoding.offsets]
        found = [_token(*kind, place, text) for kind, place in zip(kinds, places, strict=True)]
        kept = found if side is None else [found[i] for i in self._kept(encoding.ids, side)]
        return [token for token in kept if token.id != self._lost]

    def decode(self, ids: Sequence[Sequence[int]], skip_special: bool = True) -> list[str]:
        """The text of each sequence of ids."""
        return self._rust.decode_batch([list(row) for row in ids], skip_special_tokens=skip_special)

    def _known(self, row: Ids) -> Ids:
        if self._lost not in row.ids:
            return row
        return Ids([i for i in row.ids if i != self._lost], row.dropped)

    def _kept(self, ids: Sequence[int], side: Side) -> list[int]:
        before = len(self._prefix) if list(ids[: len(self._prefix)]) == self._prefix else 0
        tail = len(ids) - len(self._suffix)
        after = len(ids) - tail if list(ids[tail:]) == self._suffix else 0
        body = range(before, len(ids) - after)
        room = self.max_length - before - after
        kept = body[:room] if side == "right" else body[max(len(body) - room, 0) :]
        return [*range(before), *kept, *range(len(ids) - after, len(ids))]


def _unknown(rust: tokenizers.Tokenizer) -> int | None:
    model = json.loads(rust.to_str())["model"]
    if "unk_id" in model:  # of Unigram
        return model["unk_id"]  # type: ignore[no-any-return]
    return rust.token_to_id(model.get("unk_token") or "")


def _token(id: int, piece: str, special: int, place: tuple[int, int], text: str) -> Token:
    start, stop = place
    if special or stop <= 0:
        return Token(id, piece, bool(special), None, None)
    start = max(start, 0)
    return Token(id, text[start:stop], False, start, stop)
