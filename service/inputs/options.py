"""Options of tokenization."""

from dataclasses import dataclass, replace

from models.tokenizer.tokenizer import Side
from service.inputs.prompts import Role

Text = str | list[int]
"""An input: a text, or its token ids."""


@dataclass(frozen=True, slots=True)
class InputOptions:
    """truncate: None for the server's setting.

    side: where tokens are cut off, None: where the model's files say.
    length: the most tokens of an input, None: as many as the model reads.
    windows: an input that is too long is not cut but read in windows. count: tell how many tokens
    were cut off, for which long texts are read to their end.
    """

    truncate: bool | None = None
    side: Side | None = None
    prompt: str | None = None
    prompt_name: str | None = None
    role: Role | None = None
    windows: bool = False
    count: bool = False
    length: int | None = None

    def within(self, length: int | None) -> "InputOptions":
        """The same with at most so many tokens of an input; None: no other limit."""
        return self if length is None else replace(self, length=length)
