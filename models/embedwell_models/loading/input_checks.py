"""Checks of the texts and pairs that a caller gives to a model."""

from collections.abc import Iterable
from typing import Any

_LONE = "a lone surrogate, which UTF-8 cannot encode"


def check_texts(texts: Any) -> list[str]:
    """Return texts as a list; raises TypeError or ValueError, which names the index of the text."""
    if not isinstance(texts, Iterable) or isinstance(texts, bytes | bytearray | memoryview):
        raise TypeError(f"texts are a str or a list of str, not {kind(texts)}")
    checked = list(texts)
    for index, text in enumerate(checked):
        check_text(text, f"text {index}")
    return checked


def check_text(text: Any, name: str) -> None:
    """Raise TypeError for anything but a str, and ValueError for a lone surrogate.

    name: of the text, in messages.
    """
    if not isinstance(text, str):
        raise TypeError(f"{name} is {kind(text)}, not a str")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} has {_LONE}, at character {error.start}") from None


def check_pairs(pairs: Any) -> list[tuple[str, str | None]]:
    """Return pairs as a list; raises TypeError or ValueError, which names the index of the pair."""
    if not isinstance(pairs, Iterable) or isinstance(pairs, str | bytes):
        raise TypeError(f"pairs are tuples of two texts, not {kind(pairs)}")
    checked: list[tuple[str, str | None]] = []
    for index, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(f"pair {index} is {kind(pair)}, not a tuple of two texts")
        first, second = pair
        check_text(first, f"the first text of pair {index}")
        if second is not None:
            check_text(second, f"the second text of pair {index}")
        checked.append((first, second))
    return checked


def kind(value: Any) -> str:
    return "None" if value is None else f"of the type {type(value).__name__}"
