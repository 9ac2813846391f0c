"""The special tokens that a tokenizer puts around every text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import TypeVar

import tokenizers

from models.tokenizer.truncation import Side

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Special token ids around a text. prefix, suffix: those before and after it."""

    prefix: list[int]
    suffix: list[int]

    @classmethod
    def of(cls, rust: tokenizers.Tokenizer) -> "SpecialTokens":
        """Find the special tokens that a tokenizer adds."""
        marks = next((row for row in _samples(rust) if not all(special for _, special in row)), [])
        prefix = [i for i, _ in takewhile(lambda mark: mark[1], marks)]
        suffix = [i for i, _ in takewhile(lambda mark: mark[1], reversed(marks))]
        return cls(prefix, suffix[::-1])

    def __len__(self) -> int:
        return len(self.prefix) + len(self.suffix)

    def inner(self, framed: Sequence[T]) -> Sequence[T]:
        """Strip the special tokens from both ends."""
        return framed[len(self.prefix) : len(framed) - len(self.suffix)]

    def join(self, first: list[T], then: list[T]) -> list[T]:
        """Merge two token lists between one pair of special tokens; either may be empty."""
        if not first or not then:
            return first or then
        return [*first[: len(first) - len(self.suffix)], *then[len(self.prefix) :]]

    def kept(self, ids: Sequence[int], most: int, side: Side) -> list[int]:
        """Indices of the ids that truncation to `most` keeps, special tokens included."""
        before = len(self.prefix) if list(ids[: len(self.prefix)]) == self.prefix else 0
        tail = len(ids) - len(self.suffix)
        after = len(ids) - tail if list(ids[tail:]) == self.suffix else 0
        body = range(before, len(ids) - after)
        room = most - before - after
        kept = body[:room] if side == "right" else body[max(len(body) - room, 0) :]
        return [*range(before), *kept, *range(len(ids) - after, len(ids))]


def _samples(rust: tokenizers.Tokenizer) -> Iterator[list[tuple[int, int]]]:
    # A vocabulary without letters has no token for "a", and its normaliser may drop more.
    for text in chain(["a"], map(rust.id_to_token, range(rust.get_vocab_size()))):
        encoding = rust.encode(text or "")
        yield list(zip(encoding.ids, encoding.special_tokens_mask, strict=True))
