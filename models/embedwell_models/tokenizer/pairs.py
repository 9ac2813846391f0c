"""Token ids of pairs of texts, for rerankers and classifiers of pairs."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Self

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.errors import InstructionTooLongError, ModelError, UnpairedTextError
from embedwell_models.tokenizer.steps import Steps
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.tokenizer.tokens import Side, TruncatedIds, common_length, cut, parts

Pair = tuple[str, str | None]
"""Two texts, or a single text."""

MIN_ROOM = 2
"""Tokens: one of the first text and one of the second."""


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


class PairTokenizerWithFormat(ABC):
    """Base of tokenizers of pairs whose format takes a number of tokens of every pair.

    The others are the room of the query and the document.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Raise ModelError if the maximum length leaves no room for a pair."""
        self._tokenizer, self._max_length = tokenizer, tokenizer.max_length
        self._room = self._room_with(None)
        if self._room < MIN_ROOM:
            raise no_room(tokenizer)

    @abstractmethod
    def _room_with(self, instruction: str | None) -> int:
        """Put an instruction, or None for the default, into the format; return the room."""

    @property
    def min_length(self) -> int:
        """Minimum length of a pair that is cut: one token of each text, and the format's tokens."""
        return self._max_length - self._room + MIN_ROOM

    def with_max_length(self, max_length: int) -> Self:
        """Return a tokenizer of shorter pairs. max_length: at most the model's."""
        tokenizer = copy(self)
        tokenizer._max_length = max_length
        tokenizer._room -= self._max_length - max_length
        return tokenizer

    def with_instruction(self, instruction: str) -> Self:
        """Return a tokenizer for pairs with an instruction in place of the format's.

        Raises InstructionTooLongError, and ValueError for a model that takes no instruction.
        """
        tokenizer = copy(self)
        tokenizer._room = tokenizer._room_with(instruction)
        if tokenizer._room < self._room // 2:
            raise InstructionTooLongError
        return tokenizer

    def _ids(self, text: str, side: Side = "right") -> list[int]:
        return self._tokenizer.encode([text], side)[0].ids


def no_room(tokenizer: Tokenizer) -> ModelError:
    """Build the error for a tokenizer whose maximum length is too small for a format."""
    return ModelError(
        f"a length of {tokenizer.max_length} tokens leaves no room for a query and a document in "
        "the format of the model"
    )


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


def cut_after(  # noqa: PLR0913, PLR0917 - the parts of one text
    tokenizer: Tokenizer,
    prefix: Sequence[int],
    text: str,
    row: TruncatedIds,
    count: int,
    side: Side,
) -> Steps[TruncatedIds]:
    """Cut the ids of a text to `count`, but not its prefix. row: ids, truncated on the right."""
    length = common_length(prefix, row.ids)
    if side == "left" and row.dropped:  # the row lacks the end of the text
        (row,) = yield from tokenizer.encode_in_steps([text], "left")
        before, ids = prefix, row.ids
    else:
        before, ids = row.ids[:length], row.ids[length:]
    remaining = cut(ids, max(count - len(before), 0), side)
    return TruncatedIds([*before, *remaining], row.dropped + len(ids) - len(remaining))


def second_text(pair: Pair, index: int) -> str:
    """Return the second text of a pair; raises UnpairedTextError. index: of the pair."""
    if pair[1] is None:
        raise UnpairedTextError(index)
    return pair[1]
