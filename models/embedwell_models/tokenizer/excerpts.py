"""Truncation of long texts, of which only an excerpt is tokenized."""

from collections.abc import Sequence
from functools import partial

from embedwell_models.tokenizer.chunked import ChunkedTokenizer
from embedwell_models.tokenizer.cooperative import Cooperative
from embedwell_models.tokenizer.special_tokens import SpecialTokens
from embedwell_models.tokenizer.split_points import SplitPoints
from embedwell_models.tokenizer.token import Token, tokens_of
from embedwell_models.tokenizer.truncation import Side, TruncatedIds

_CHARACTERS_PER_TOKEN = 16  # more than almost any text has on average


class ExcerptTokenizer:
    """Tokenizer that reads only as much of a text as its first or last `max_length` tokens need.

    count_limit in its methods: maximum number of tokens of a long text that are counted, to report
    the number of truncated tokens. The methods raise UnsplittableTextError.
    """

    def __init__(
        self,
        chunked: ChunkedTokenizer,
        special_tokens: SpecialTokens,
        split_points: SplitPoints,
        max_length: int,
    ) -> None:
        """max_length: maximum number of tokens."""
        self._chunked, self._special_tokens = chunked, special_tokens
        self._split_points, self._max_length = split_points, max_length
        self._max_excerpt = max_excerpt_size(max_length)

    def encode(
        self, texts: Sequence[str], side: Side, count_limit: float
    ) -> Cooperative[list[TruncatedIds]]:
        """Return the truncated ids of each text."""
        excerpts = [self._excerpt(text, side, count_limit) for text in texts]
        single = [excerpt for excerpt in excerpts if self._chunked.is_single_chunk(excerpt)]
        single_ids, rows = iter(self._chunked.encode(single)), []
        for excerpt, text in zip(excerpts, texts, strict=True):
            if self._chunked.is_single_chunk(excerpt):
                ids = next(single_ids)
            else:
                ids = yield from self._outermost_ids(excerpt, side)
            if self._is_too_short(ids, excerpt, text):
                ids = yield from self._outermost_ids(text, side)
            row = self.truncate(ids, side, self._max_length)
            rows.append((yield from self._count_dropped(row, text, count_limit)))
        return rows

    def encode_with_tokens(
        self, text: str, prompt: str, side: Side, count_limit: float
    ) -> Cooperative[tuple[TruncatedIds, list[Token]]]:
        """Return the truncated ids of a prompt and a text, and the token of each."""
        prompted = prompt + text
        excerpt = self._excerpt(prompted, side, count_limit)
        tokens = yield from self._outermost_tokens(excerpt, side, prompted, text)
        if self._is_too_short(tokens, excerpt, prompted):
            tokens = yield from self._outermost_tokens(prompted, side, prompted, text)
        ids = [token.id for token in tokens]
        row = self.truncate(ids, side, self._max_length)
        if row.dropped:
            indices = self._special_tokens.truncated_indices(ids, self._max_length, side)
            tokens = [tokens[index] for index in indices]
        return (yield from self._count_dropped(row, prompted, count_limit)), tokens

    def truncate(self, ids: Sequence[int], side: Side, max_length: int) -> TruncatedIds:
        """Truncate ids; the special tokens around a text remain."""
        dropped = len(ids) - max_length
        if dropped <= 0:
            return TruncatedIds(list(ids))
        indices = self._special_tokens.truncated_indices(ids, max_length, side)
        return TruncatedIds([ids[index] for index in indices], dropped)

    def _excerpt(self, text: str, side: Side, count_limit: float) -> str:
        if count_limit and self._chunked.is_single_chunk(text):
            return text
        return self._split_points.excerpt(text, side, self._max_excerpt // 2)

    def _is_too_short(self, tokens: Sequence[object], excerpt: str, text: str) -> bool:
        # One more token than remains: the outermost token of an excerpt may be part of another.
        return excerpt is not text and len(tokens) <= self._max_length

    def _count_dropped(
        self, row: TruncatedIds, text: str, count_limit: float
    ) -> Cooperative[TruncatedIds]:
        counted = row.dropped + self._max_length
        if not row.dropped or counted >= count_limit or self._chunked.is_single_chunk(text):
            return row
        total = yield from self._chunked.count(text, count_limit)
        return TruncatedIds(row.ids, total - self._max_length)

    def _outermost_ids(self, text: str, side: Side) -> Cooperative[list[int]]:
        return self._chunked.outermost(text, side, self._max_length, self._chunked.chunk_ids)

    def _outermost_tokens(
        self, excerpt: str, side: Side, prompted: str, text: str
    ) -> Cooperative[list[Token]]:
        # An excerpt of the end starts after the start of the prompt.
        shift = len(text) - (len(excerpt) if side == "left" else len(prompted))
        extract = partial(tokens_of, text=text)
        read = partial(self._chunked.chunk_tokens, extract=extract, shift=shift)
        return self._chunked.outermost(excerpt, side, self._max_length, read)


def max_excerpt_size(max_length: int) -> int:
    """Return the usual number of characters that are tokenized for `max_length` tokens."""
    return 2 * max_length * _CHARACTERS_PER_TOKEN
