"""The tokens of a text, and the characters that each has a part of."""

import unicodedata
from collections.abc import Collection
from dataclasses import dataclass

import tokenizers


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a text.

    start and stop: the characters that it has a part of, with their combining marks, so that all
    tokens of one emoji's bytes have that emoji; equal where the tokenizer trims a space away. None
    for what is not part of the text: a special token, the prompt, a space put before the text.
    text: those characters, or the name of a token that has no place.
    """

    id: int
    text: str
    special: bool
    start: int | None
    stop: int | None


def tokens_of(encoding: tokenizers.Encoding, shift: int, text: str) -> list[Token]:
    """The tokens of an encoding. shift: from a place in what was encoded to that in the text."""
    # Each of these is made anew when it is asked for.
    kinds = zip(encoding.ids, encoding.tokens, encoding.special_tokens_mask, strict=True)
    places = [(start + shift, stop + shift) for start, stop in encoding.offsets]
    starts = {start for start, stop in places if start < stop}
    return [
        _token(*kind, (max(start, 0), _end(text, stop, starts)), text)
        for kind, (start, stop) in zip(kinds, places, strict=True)
    ]


def outline_of(encoding: tokenizers.Encoding, shift: int) -> list[tuple[int, bool]]:
    """The ids of an encoding, each with whether it is no part of the text; far sooner than tokens.

    shift: see `tokens_of`.
    """
    places = zip(encoding.special_tokens_mask, encoding.offsets, strict=True)
    outside = [bool(special) or stop + shift <= 0 for special, (_, stop) in places]
    return list(zip(encoding.ids, outside, strict=True))


def _end(text: str, stop: int, starts: Collection[int]) -> int:
    # A normaliser that composes or strips a mark leaves it without a token.
    while (
        0 < stop < len(text) and stop not in starts and unicodedata.category(text[stop])[0] == "M"
    ):
        stop += 1
    return stop


def _token(id: int, piece: str, special: int, place: tuple[int, int], text: str) -> Token:
    start, stop = place
    if special or stop <= 0:
        return Token(id, piece, bool(special), None, None)
    return Token(id, text[start:stop], False, start, stop)
