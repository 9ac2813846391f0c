"""Tokenization of a long text in chunks, with the same tokens as the whole text.

If the text is truncated, only as much of it is tokenized as its first or last tokens need.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import tokenizers

from embedwell_models.errors import UnsplittableTextError
from embedwell_models.tokenizer.caching_tokenizer import fastest_tokenizer
from embedwell_models.tokenizer.rust_tokenizer import without_panic
from embedwell_models.tokenizer.special_tokens import SpecialTokens
from embedwell_models.tokenizer.split_points import SplitPoints
from embedwell_models.tokenizer.steps import Steps
from embedwell_models.tokenizer.tokens import Side, Token, TruncatedIds, tokens_of

_CHARACTERS_PER_TOKEN = 16  # more than almost any text has on average

T = TypeVar("T")
Span = tuple[int, int]
"""Start and stop of a chunk in its text."""
Extract = Callable[[tokenizers.Encoding, int], list[T]]
"""Function that lists the tokens of an encoding in some form, with shifted offsets."""


class ChunkedTokenizer:
    """Tokenizer of long texts; each chunk of a text gets the special tokens of a text.

    encode: returns the ids of texts of a single chunk.
    count_limit in its methods: maximum number of tokens of a long text that are counted, to report
    the number of truncated tokens.
    """

    def __init__(
        self,
        rust: tokenizers.Tokenizer,
        special_tokens: SpecialTokens,
        split_points: SplitPoints,
        chunk_size: int,
        max_length: int,
    ) -> None:
        """chunk_size: minimum characters of a chunk; the maximum is twice as many.

        max_length: maximum number of tokens of a truncated text.
        """
        self._rust, self._special_tokens = rust, special_tokens
        self._split_points, self._chunk_size = split_points, chunk_size
        self._max_length, self._max_excerpt = max_length, max_excerpt_size(max_length)
        self.encode = fastest_tokenizer(rust, special_tokens.prefix, special_tokens.suffix).encode

    def is_single_chunk(self, text: str) -> bool:
        """Return whether a text is short enough for one chunk."""
        return len(text) <= 2 * self._chunk_size

    def spans(self, text: str) -> Iterator[Span]:
        """Yield the spans of a text's chunks; raises UnsplittableTextError."""
        return self._split_points.chunk_spans(text, self._chunk_size)

    def chunk_ids(self, text: str, span: Span) -> Sequence[int]:
        """Return the ids of a chunk."""
        return self.encode([text[slice(*span)]])[0]

    def chunk_tokens(
        self, text: str, span: Span, extract: Extract[T], shift: int = 0, special: bool = True
    ) -> list[T]:
        """Extract the tokens of a chunk. shift: added to offsets in the text."""
        start, stop = span
        # At the start of a text, some tokenizers shift the offsets of a token with a space.
        before = text[max(start - 1, 0) : start]
        encoding = self._encode(before + text[start:stop], special)
        tokens = extract(encoding, start - len(before) + shift)
        first = len(self._special_tokens.prefix) if special else 0
        del tokens[first : first + len(self._encode(before, special=False).ids)]
        return tokens

    def token_chunks(
        self, text: str, extract: Extract[T], shift: int, special: bool
    ) -> Iterator[list[T]]:
        """Extract the tokens of each chunk, with special tokens only around the whole text."""
        special_tokens = self._special_tokens if special else SpecialTokens([], [])
        for span in self.spans(text):
            tokens = self.chunk_tokens(text, span, extract, shift, special)
            low = len(special_tokens.prefix) if span[0] else 0
            high = len(tokens) - (len(special_tokens.suffix) if span[1] < len(text) else 0)
            yield tokens[low:high]

    def outermost(
        self, text: str, side: Side, limit: int, read: Callable[[str, Span], Sequence[T]]
    ) -> Steps[Sequence[T]]:
        """Read the tokens of chunks from the start of a text, or from its end if `side` is "left".

        Stops after more than `limit` tokens.
        """
        tokens: Sequence[T] = ()
        spans = self.spans(text)
        for span in spans if side == "right" else reversed(list(spans)):
            chunk = read(text, span)
            pair = (tokens, chunk) if side == "right" else (chunk, tokens)
            tokens = self._special_tokens.join(*pair)
            if len(tokens) > limit:
                break
            yield
        return tokens

    def count(self, text: str, limit: float = math.inf) -> Steps[int]:
        """Count the tokens of a text, special tokens included; stop above `limit`."""
        total = len(self._special_tokens)
        for span in self.spans(text):
            total += len(self._special_tokens.strip(self.chunk_ids(text, span)))
            if total > limit:
                break
            yield
        return total

    def encode_truncated(
        self, texts: Sequence[str], side: Side, count_limit: float
    ) -> Steps[list[TruncatedIds]]:
        """Return the truncated ids of each text; raises UnsplittableTextError."""
        excerpts = [self._excerpt(text, side, count_limit) for text in texts]
        single = [excerpt for excerpt in excerpts if self.is_single_chunk(excerpt)]
        single_ids, rows = iter(self.encode(single)), []
        for index, (excerpt, text) in enumerate(zip(excerpts, texts, strict=True)):
            ids = next(single_ids) if self.is_single_chunk(excerpt) else None
            try:
                row = yield from self._truncated(ids, excerpt, text, side, count_limit)
            except UnsplittableTextError as error:
                raise UnsplittableTextError(error.limit, index) from None
            rows.append(row)
        return rows

    def _truncated(
        self, ids: Sequence[int] | None, excerpt: str, text: str, side: Side, count_limit: float
    ) -> Steps[TruncatedIds]:
        """Return the truncated ids of a text. ids: of its excerpt, if they are known."""
        if ids is None:
            ids = yield from self._outermost_ids(excerpt, side)
        if self._is_too_short(ids, excerpt, text):
            ids = yield from self._outermost_ids(text, side)
        row = self._special_tokens.truncate(ids, self._max_length, side)
        return (yield from self._count_dropped(row, text, count_limit))

    def encode_with_tokens(
        self, text: str, prompt: str, side: Side, count_limit: float
    ) -> Steps[tuple[TruncatedIds, Sequence[Token]]]:
        """Return the truncated ids of a prompt and a text, and the token of each."""
        prompted = prompt + text
        excerpt = self._excerpt(prompted, side, count_limit)
        tokens = yield from self._outermost_tokens(excerpt, side, prompted, text)
        if self._is_too_short(tokens, excerpt, prompted):
            tokens = yield from self._outermost_tokens(prompted, side, prompted, text)
        ids = [token.id for token in tokens]
        row = self._special_tokens.truncate(ids, self._max_length, side)
        if row.dropped:
            indices = self._special_tokens.truncated_indices(ids, self._max_length, side)
            tokens = [tokens[index] for index in indices]
        return (yield from self._count_dropped(row, prompted, count_limit)), tokens

    def _excerpt(self, text: str, side: Side, count_limit: float) -> str:
        if count_limit and self.is_single_chunk(text):
            return text
        return self._split_points.excerpt(text, side, self._max_excerpt // 2)

    def _is_too_short(self, tokens: Sequence[object], excerpt: str, text: str) -> bool:
        # One more token than remains: the outermost token of an excerpt may be part of another.
        return excerpt is not text and len(tokens) <= self._max_length

    def _count_dropped(
        self, row: TruncatedIds, text: str, count_limit: float
    ) -> Steps[TruncatedIds]:
        counted = row.dropped + self._max_length
        if not row.dropped or counted >= count_limit or self.is_single_chunk(text):
            return row
        total = yield from self.count(text, count_limit)
        return TruncatedIds(row.ids, total - self._max_length)

    def _outermost_ids(self, text: str, side: Side) -> Steps[Sequence[int]]:
        return self.outermost(text, side, self._max_length, self.chunk_ids)

    def _outermost_tokens(
        self, excerpt: str, side: Side, prompted: str, text: str
    ) -> Steps[Sequence[Token]]:
        # An excerpt of the end starts after the start of the prompt.
        shift = len(text) - (len(excerpt) if side == "left" else len(prompted))
        extract = partial(tokens_of, text=text)
        read = partial(self.chunk_tokens, extract=extract, shift=shift)
        return self.outermost(excerpt, side, self._max_length, read)

    def _encode(self, text: str, special: bool) -> tokenizers.Encoding:
        # `encode` of a long text would block all other Python threads for seconds.
        try:
            return self._rust.encode_batch([text], add_special_tokens=special)[0]
        except BaseException as error:
            raise without_panic(error) from None


def max_excerpt_size(max_length: int) -> int:
    """Return the usual number of characters that are tokenized for `max_length` tokens."""
    return 2 * max_length * _CHARACTERS_PER_TOKEN
