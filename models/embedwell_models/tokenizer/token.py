"""Tokens of a text, with their character offsets."""

import unicodedata
from collections.abc import Collection
from dataclasses import dataclass

import tokenizers


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a text.

    start, stop: offsets of its characters in the text. A character of several tokens, such as an
    emoji of several bytes, belongs to all of them. Combining marks belong to the token before them.
    start equals stop if the tokenizer trims a space. Both are None for a token outside the text: a
    special token, the prompt, or a space that is added before the text.
    text: the characters, or the token's name if it is outside the text.
    """

    id: int
    text: str
    special: bool
    start: int | None
    stop: int | None


def tokens_of(encoding: tokenizers.Encoding, shift: int, text: str) -> list[Token]:
    """List the tokens of an encoding. shift: added to its offsets to get offsets of the text."""
    # The library builds a new list for each access to these attributes.
    columns = zip(encoding.ids, encoding.tokens, encoding.special_tokens_mask, strict=True)
    spans = [(start + shift, stop + shift) for start, stop in encoding.offsets]
    starts = {start for start, stop in spans if start < stop}
    return [
        _token(*column, (max(start, 0), _after_marks(text, stop, starts)), text)
        for column, (start, stop) in zip(columns, spans, strict=True)
    ]


def ids_of(encoding: tokenizers.Encoding, shift: int) -> list[tuple[int, bool]]:
    """List the ids of an encoding, each with a flag: whether its token is outside the text.

    Much faster than `tokens_of`. shift: added to its offsets to get offsets of the text.
    """
    columns = zip(encoding.special_tokens_mask, encoding.offsets, strict=True)
    outside = [bool(special) or stop + shift <= 0 for special, (_, stop) in columns]
    return list(zip(encoding.ids, outside, strict=True))


def _after_marks(text: str, stop: int, starts: Collection[int]) -> int:
    # A combining mark has no token if a normalizer composes or strips it.
    while (
        0 < stop < len(text) and stop not in starts and unicodedata.category(text[stop])[0] == "M"
    ):
        stop += 1
    return stop


def _token(id: int, name: str, special: int, span: tuple[int, int], text: str) -> Token:
    start, stop = span
    if special or stop <= 0:
        return Token(id, name, bool(special), None, None)
    return Token(id, text[start:stop], False, start, stop)
