"""Base of tokenizers of pairs in a format, and the cut of the texts inside it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Self

from embedwell_models.errors import InstructionTooLongError, ModelError, UnpairedTextError
from embedwell_models.tokenizer.pairs import MIN_ROOM, Pair
from embedwell_models.tokenizer.steps import Steps
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.tokenizer.tokens import Side, TruncatedIds, common_length, cut


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
        return [*self._tokenizer.encode([text], side)[0].ids]


def no_room(tokenizer: Tokenizer) -> ModelError:
    """Build the error for a tokenizer whose maximum length is too small for a format."""
    return ModelError(
        f"a length of {tokenizer.max_length} tokens leaves no room for a query and a document in "
        "the format of the model"
    )


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
