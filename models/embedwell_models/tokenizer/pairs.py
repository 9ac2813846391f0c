"""Token ids of pairs of texts, for rerankers and classifiers of pairs."""

import pkgutil
from collections.abc import Sequence
from copy import copy
from typing import Protocol

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.formats import AnyPairFormat
from embedwell_models.tokenizer.steps import Steps
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.tokenizer.tokens import Side, TruncatedIds, cut, parts

Pair = tuple[str, str | None]
"""Two texts, or a single text."""

MIN_ROOM = 2
"""Tokens: one of the first text and one of the second."""

_FORMATTED = "embedwell_prompts.pair_encoders:pair_encoder"
"""Function that returns the tokenizer of pairs in a format."""


class PairEncoder(Protocol):
    """Tokenizer of pairs for a model."""

    @property
    def characters(self) -> int:
        """Number of characters that are added to a pair."""

    @property
    def min_length(self) -> int:
        """Minimum length of a pair that is cut: a token of each text, and those around them."""

    def with_max_length(self, max_length: int) -> "PairEncoder":
        """Return a tokenizer of shorter pairs. max_length: at most the model's."""

    def with_instruction(self, instruction: str) -> "PairEncoder":
        """Return a tokenizer for pairs with an instruction in place of the format's.

        Raises InstructionTooLongError, and ValueError for a model that takes no instruction.
        """

    def encode(
        self,
        pairs: Sequence[Pair],
        side: Side | None = None,
        count_limit: float = 0,
        max_second: int | None = None,
    ) -> Steps[list[TruncatedIds]]:
        """Return the ids of each pair, in steps; for the arguments see PairTokenizer.encode.

        Raises UnpairedTextError for a text alone, if the model has a format, and
        UnsplittableTextError.
        """

    def windows(self, first: str, second: str, max_tokens: int) -> Steps[list[list[int]]]:
        """Split the second text into parts that fit next to the first; see PairTokenizer."""


def pair_encoder(
    tokenizer: Tokenizer, config: EncoderConfig, pair_format: AnyPairFormat | None
) -> PairEncoder:
    """Return the tokenizer of pairs for a model; raises ModelError if it cannot read pairs."""
    if pair_format is None:
        return PairTokenizer(tokenizer, config)
    encoder: PairEncoder = pkgutil.resolve_name(_FORMATTED)(
        tokenizer, pair_format, config.vocab_size
    )
    return encoder


class PairTokenizer:
    """Tokenizer of pairs for a model. characters: number of characters that are added to a pair."""

    characters = 0

    def __init__(self, tokenizer: Tokenizer, config: EncoderConfig) -> None:
        """config: the encoder's configuration, which tells whether it has a second segment.

        Raises ModelError if ids cannot tell the segments apart.
        """
        if config.two_segments and tokenizer.max_id >= config.vocab_size:
            raise ModelError(
                f"the tokenizer has ids up to {tokenizer.max_id}, the table of the model up to "
                f"{config.vocab_size - 1}"
            )
        self._tokenizer, self._max_length = tokenizer, tokenizer.max_length
        self._template = tokenizer.pair_template(config.vocab_size if config.two_segments else 0)
        self._last_count = ((0, -1), 0)  # (hash, characters) of a text, and its number of tokens

    @property
    def min_length(self) -> int:
        """Minimum length of a pair that is cut: a token of each text, and the special ones."""
        return len(self._template) + MIN_ROOM

    def with_max_length(self, max_length: int) -> "PairTokenizer":
        """Return a tokenizer of shorter pairs. max_length: at most the model's."""
        tokenizer = copy(self)
        tokenizer._max_length = max_length
        return tokenizer

    def with_instruction(self, instruction: str) -> "PairTokenizer":
        """Raise ValueError, because only a format has a slot for an instruction."""
        raise ValueError("the model takes no instruction")

    def encode(
        self,
        pairs: Sequence[Pair],
        side: Side | None = None,
        count_limit: float = 0,
        max_second: int | None = None,
    ) -> Steps[list[TruncatedIds]]:
        """Return the ids of each pair, in steps; the longer text of a pair is truncated first.

        count_limit: see Tokenizer.encode. max_second: maximum number of tokens of a second text.
        Raises UnsplittableTextError.
        """
        side = side or self._tokenizer.side
        texts = list(dict.fromkeys(text for pair in pairs for text in pair if text is not None))
        rows = yield from self._tokenizer.encode_in_steps(texts, side, count_limit)
        row_of = dict(zip(texts, rows, strict=True))
        joined = []
        for a, b in pairs:
            if b is None:
                joined.append(self._cut(row_of[a], side))
                continue
            first_is_longer = yield from self._is_longer(a, row_of[a], b, row_of[b])
            joined.append(self._join(row_of[a], row_of[b], side, max_second, first_is_longer))
        return joined

    def windows(self, first: str, second: str, max_tokens: int) -> Steps[list[list[int]]]:
        """Split the second text of a pair into parts that fit next to the first, in steps.

        A first text that takes more than half of the room is truncated. max_tokens: maximum number
        of tokens of the second text. Raises UnsplittableTextError.
        """
        room = self._max_length - len(self._template)
        (row,) = yield from self._tokenizer.encode_in_steps([first], "right")
        a = self._tokenizer.strip(row)[: max(room // 2, 1)]
        b = yield from self._tokenizer.ids_without_special(second, max_tokens)
        size = max(room - len(a), 1)
        return [self._template.join(a, b[part]) for part in parts(len(b), size)]

    def _is_longer(self, a: str, first: TruncatedIds, b: str, second: TruncatedIds) -> Steps[bool]:
        if not (first.dropped and second.dropped):
            return len(first.ids) + first.dropped > len(second.ids) + second.dropped
        first_count = yield from self._count_first(a)  # `dropped` is a lower bound
        return first_count > (yield from self._tokenizer.count_tokens(b))

    def _count_first(self, text: str) -> Steps[int]:
        # A query is the first text of many pairs. Its hash is cached, because it is private.
        key, counted = (hash(text), len(text)), self._last_count
        if counted[0] != key:
            counted = (key, (yield from self._tokenizer.count_tokens(text)))
            self._last_count = counted
        return counted[1]

    def _cut(self, row: TruncatedIds, side: Side) -> TruncatedIds:
        shorter = self._tokenizer.truncate(row.ids, side, self._max_length)
        return TruncatedIds(shorter.ids, row.dropped + shorter.dropped)

    def _join(
        self,
        first: TruncatedIds,
        second: TruncatedIds,
        side: Side,
        max_second: int | None,
        first_is_longer: bool,
    ) -> TruncatedIds:
        a, b = self._tokenizer.strip(first), self._tokenizer.strip(second)
        room = self._max_length - len(self._template)
        dropped = first.dropped + second.dropped + len(a) + len(b)
        b = cut(b, len(b) if max_second is None else max_second, side)
        lengths = truncated_lengths(len(a), len(b), room, first_is_longer)
        a, b = (cut(ids, count, side) for ids, count in zip((a, b), lengths, strict=True))
        ids = self._template.join(a, b)
        return TruncatedIds(ids, dropped - len(a) - len(b))


def truncated_lengths(first: int, second: int, room: int, first_is_longer: bool) -> tuple[int, int]:
    """Return the number of remaining tokens of each text, `room` in total.

    This is the strategy "longest_first" of Hugging Face's tokenizers: the longer text is truncated.
    If both texts are too long, each gets half of the room, and the longer text gets an odd token.
    """
    if first + second <= room:
        return first, second
    shorter = min(first, second)
    if shorter <= room - shorter:
        longer = room - shorter
    else:
        shorter, longer = room // 2, room // 2 + room % 2
    return (longer, shorter) if first_is_longer else (shorter, longer)
