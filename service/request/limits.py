"""Limits that several endpoints share, each with its own code."""

from models.errors import UnsplittableTextError
from models.tokenizer.tokenizer import Tokenizer
from service.errors import BadRequest, TooLarge

UNBROKEN = 1 << 18
"""Characters of a text that are read at once where it cannot be cut: a second, and 160 MB."""


def check_texts(texts: int, most: int) -> None:
    """Raises BadRequest for no text at all, TooLarge for too many."""
    if not texts:
        raise BadRequest("give at least one text", code="no_input")
    if texts > most:
        raise TooLarge(f"the request has {texts} texts, the limit is {most}", code="too_many_texts")


def check_tokens(tokens: int, most: int) -> None:
    """Raises TooLarge for too many tokens."""
    if tokens > most:
        raise TooLarge(
            f"the request has {tokens} tokens or more, the limit is {most}", code="too_many_tokens"
        )


def check_values(values: int, most: int) -> None:
    """Raises TooLarge for an answer of too many numbers."""
    if values > most:
        raise TooLarge(
            f"the answer has {values} numbers, the limit is {most}", code="too_many_values"
        )


def check_length(asked: int, tokenizer: Tokenizer, param: str) -> None:
    """Raises BadRequest for so many tokens of a text as no text has, or the model does not read."""
    special = len(tokenizer.prefix) + len(tokenizer.suffix)
    if asked > tokenizer.max_length:
        raise BadRequest(
            f"{param} is {asked}, the model reads {tokenizer.max_length} tokens", param=param
        )
    if asked <= special:
        raise BadRequest(
            f"{param} is {asked}, and the model puts {special} special tokens around a text",
            param=param,
        )


def no_room(max_length: int) -> BadRequest:
    """What is told of a prompt that leaves no room for a text."""
    return BadRequest(
        f"the prompt takes the {max_length} tokens that the model reads; shorten it",
        code="prompt_too_long",
        param="prompt",
    )


def unbroken(error: UnsplittableTextError, index: int) -> BadRequest:
    """What is told of an input that cannot be read piece by piece."""
    return BadRequest(f"input {index}: {error}", code="unbroken_text", index=index)
