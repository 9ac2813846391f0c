"""What surrounds every text: the special ids that a tokenizer puts before and after it."""

from functools import cached_property
from itertools import takewhile

from models.tokenizer import Token, Tokenizer
from service.errors import BadRequest


class Frame:
    """Read off a sample when it is first needed."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    @cached_property
    def prefix(self) -> list[int]:
        return [token.id for token in takewhile(_special, self._sample)]

    @cached_property
    def suffix(self) -> list[int]:
        return [token.id for token in takewhile(_special, reversed(self._sample))][::-1]

    @cached_property
    def _sample(self) -> list[Token]:
        return self._tokenizer.tokens("a")


def _special(token: Token) -> bool:
    return token.special


def no_room(max_length: int) -> BadRequest:
    """What is told of a prompt that leaves no room for a text."""
    return BadRequest(
        f"the prompt takes the {max_length} tokens that the model reads; shorten it",
        code="prompt_too_long",
        param="prompt",
    )
