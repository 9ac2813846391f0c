"""Limits that several endpoints share, each with its own error code."""

from embedwell.errors import BadRequest, TooLarge
from embedwell_models.errors import UnsplittableTextError
from embedwell_models.tokenizer.tokenizer import Tokenizer

MAX_UNSPLIT_CHARACTERS = 1 << 18
"""Maximum characters of a text without split points, which takes one second and 160 MB."""


def check_input_count(count: int, limit: int) -> None:
    """Raise BadRequest if there are no inputs, and TooLarge if there are too many."""
    if not count:
        raise BadRequest("give at least one text", code="no_input")
    if count > limit:
        raise TooLarge(
            f"the request has {count} texts, but the limit is {limit}; split it",
            code="too_many_texts",
        )


def check_tokens(tokens: int, limit: int) -> None:
    """Raise TooLarge for too many tokens."""
    if tokens > limit:
        raise TooLarge(
            f"the request has {tokens} tokens or more, but the limit is {limit}; split it",
            code="too_many_tokens",
        )


def check_window_tokens(tokens: int, limit: int, index: int) -> None:
    """Raise TooLarge if the windows of one input have too many tokens together."""
    if tokens > limit:
        raise TooLarge(
            f"input {index} has {tokens} tokens or more in windows, but the limit is {limit}; "
            "shorten it",
            code="too_many_tokens",
            index=index,
        )


def check_response_numbers(values: int, limit: int) -> None:
    """Raise TooLarge if a response would have too many numbers."""
    if values > limit:
        raise TooLarge(
            f"the response would have {values} numbers, but the limit is {limit}; split the "
            "request",
            code="too_many_values",
        )


def check_max_length(requested: int, tokenizer: Tokenizer, param: str) -> None:
    """Raise BadRequest for a maximum length that is above the model's or too short for any text."""
    special = len(tokenizer.prefix) + len(tokenizer.suffix)
    if requested > tokenizer.max_length:
        raise BadRequest(
            f"{param} is {requested}, but the model reads at most {tokenizer.max_length} tokens",
            param=param,
        )
    if requested <= special:
        raise BadRequest(
            f"{param} is {requested}, but must be above {special}, the number of special "
            "tokens around a text",
            param=param,
        )


def prompt_too_long_error(max_length: int) -> BadRequest:
    """Create the error for a prompt that leaves no room for a text."""
    return BadRequest(
        f"the prompt takes all of the {max_length} tokens that the model reads; shorten it",
        code="prompt_too_long",
        param="prompt",
    )


def unsplittable_text_error(error: UnsplittableTextError, index: int) -> BadRequest:
    """Create the error for an input that cannot be split for tokenization."""
    return BadRequest(f"input {index}: {error}", code="unbroken_text", index=index)
