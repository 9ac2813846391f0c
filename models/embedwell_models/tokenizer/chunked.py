"""Tokenization of a long text in chunks, with the same tokens as the whole text."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import tokenizers

from embedwell_models.tokenizer.cooperative import Cooperative
from embedwell_models.tokenizer.special_tokens import SpecialTokens
from embedwell_models.tokenizer.split_points import SplitPoints
from embedwell_models.tokenizer.truncation import Side
from embedwell_models.tokenizer.word_cache import fastest_tokenizer

T = TypeVar("T")
Span = tuple[int, int]
"""Start and stop of a chunk in its text."""
Extract = Callable[[tokenizers.Encoding, int], list[T]]
"""Function that lists the tokens of an encoding in some form, with shifted offsets."""


class ChunkedTokenizer:
    """Tokenizer of chunks of a text; each chunk gets the special tokens of a text."""

    def __init__(
        self,
        rust: tokenizers.Tokenizer,
        special_tokens: SpecialTokens,
        split_points: SplitPoints,
        chunk_size: int,
    ) -> None:
        """chunk_size: minimum characters of a chunk; the maximum is twice as many."""
        self._rust, self._special_tokens = rust, special_tokens
        self._split_points, self._chunk_size = split_points, chunk_size
        self._tokenizer = fastest_tokenizer(rust, special_tokens.prefix, special_tokens.suffix)

    def is_single_chunk(self, text: str) -> bool:
        """Return whether a text is short enough for one chunk."""
        return len(text) <= 2 * self._chunk_size

    def spans(self, text: str) -> Iterator[Span]:
        """Yield the spans of a text's chunks; raises UnsplittableTextError."""
        return self._split_points.chunk_spans(text, self._chunk_size)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of texts of a single chunk."""
        return self._tokenizer.encode(texts)

    def chunk_ids(self, text: str, span: Span) -> list[int]:
        """Return the ids of a chunk."""
        return self._tokenizer.encode([text[slice(*span)]])[0]

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
        self, text: str, side: Side, limit: int, read: Callable[[str, Span], list[T]]
    ) -> Cooperative[list[T]]:
        """Read the tokens of chunks from the start of a text, or from its end if `side` is "left".

        Stops after more than `limit` tokens.
        """
        tokens: list[T] = []
        spans = self.spans(text)
        for span in spans if side == "right" else reversed(list(spans)):
            chunk = read(text, span)
            pair = (tokens, chunk) if side == "right" else (chunk, tokens)
            tokens = self._special_tokens.join(*pair)
            if len(tokens) > limit:
                break
            yield
        return tokens

    def count(self, text: str, limit: float = math.inf) -> Cooperative[int]:
        """Count the tokens of a text, special tokens included; stop above `limit`."""
        total = len(self._special_tokens)
        for span in self.spans(text):
            total += len(self._special_tokens.strip(self.chunk_ids(text, span)))
            if total > limit:
                break
            yield
        return total

    def _encode(self, text: str, special: bool) -> tokenizers.Encoding:
        # `encode` of a long text would block all other Python threads for seconds.
        return self._rust.encode_batch([text], add_special_tokens=special)[0]
