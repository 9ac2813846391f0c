"""Tokens and token ids of a text, and their truncation to the maximum length of a model."""

import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from embedwell_models.config.json_config import JsonConfig

if TYPE_CHECKING:  # an engine reads the side alone
    import tokenizers

Side = Literal["right", "left"]
"""Side on which tokens are truncated."""
MAX_UNSPLIT_CHARACTERS = 1 << 18
"""Maximum characters of a text without split points, which takes one second and 160 MB."""


@dataclass(slots=True)
class TruncatedIds:
    """Token ids of a text, special tokens included.

    ids: a list, or an `array` of int32, which takes a fraction of a list's time to build and read.
    dropped: number of truncated tokens. It is a lower bound if a count limit stopped the
    tokenization of a long text.
    """

    ids: Sequence[int]
    dropped: int = 0

    def remaining(self, first: int, side: Side) -> int:
        """Return how many of the `first` first tokens remain after truncation on a side."""
        return max(first - self.dropped, 0) if side == "left" else first


def remaining_slice(length: int, count: int, side: Side) -> slice:
    """Return the first `count` positions of `length`, or the last if `side` is "left"."""
    return slice(0, count) if side == "right" else slice(max(length - count, 0), length)


def cut(ids: Sequence[int], count: int, side: Side) -> Sequence[int]:
    """Return the first `count` ids, or the last ids if `side` is "left"."""
    return ids[remaining_slice(len(ids), count, side)]


def common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the length of the longest common prefix of two rows of ids."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def parts(length: int, size: int) -> list[slice]:
    """Split `length` tokens into parts of at most `size`; no tokens are one empty part."""
    return [slice(start, start + size) for start in range(0, max(length, 1), size)]


def read_side(options: JsonConfig) -> Side | None:
    """Read the side from options; None if it is not set. Raises ModelError for another value."""
    side: Side | None = options.require("truncation_side", None, *get_args(Side))
    return side


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a text.

    start, stop: offsets of its characters in the text. A character of several tokens, such as an
    emoji of several bytes, belongs to all of them. Combining marks without a token of their own
    belong to the token before them, and so do vowels and final consonants of decomposed Korean.
    start equals stop if the tokenizer trims a space. Both are None for a token outside the text: a
    special token, the prompt, or a space that is added before the text.
    text: the characters, or the token's name if it is outside the text.
    """

    id: int
    text: str
    special: bool
    start: int | None
    stop: int | None


def tokens_of(encoding: "tokenizers.Encoding", shift: int, text: str) -> list[Token]:
    """List the tokens of an encoding. shift: added to its offsets to get offsets of the text."""
    # The library builds a new list for each access to these attributes.
    columns = zip(encoding.ids, encoding.tokens, encoding.special_tokens_mask, strict=True)
    spans = [(start + shift, stop + shift) for start, stop in encoding.offsets]
    starts = {start for start, stop in spans if start < stop}
    return [
        _token(*column, (max(start, 0), _after_marks(text, stop, starts)), text)
        for column, (start, stop) in zip(columns, spans, strict=True)
    ]


def ids_of(encoding: "tokenizers.Encoding", shift: int) -> list[tuple[int, bool]]:
    """List the ids of an encoding, each with a flag: whether its token is outside the text.

    Much faster than `tokens_of`. shift: added to its offsets to get offsets of the text.
    """
    columns = zip(encoding.special_tokens_mask, encoding.offsets, strict=True)
    outside = [bool(special) or stop + shift <= 0 for special, (_, stop) in columns]
    return list(zip(encoding.ids, outside, strict=True))


def _after_marks(text: str, stop: int, starts: Collection[int]) -> int:
    # A combining mark has no token if a normalizer composes or strips it.
    while 0 < stop < len(text) and stop not in starts and _combines(text[stop]):
        stop += 1
    return stop


def _combines(character: str) -> bool:
    # Whether a normalizer may compose a character with the one before: a mark, the vowels and final
    # consonants of Korean, and the two marks of half-width kana.
    return (
        unicodedata.category(character)[0] == "M"
        or "\u1160" <= character <= "\u11ff"
        or character in "\uff9e\uff9f"
    )


def _token(id: int, name: str, special: int, span: tuple[int, int], text: str) -> Token:
    start, stop = span
    if special or stop <= 0:
        return Token(id, name, bool(special), None, None)
    return Token(id, text[start:stop], False, start, stop)
