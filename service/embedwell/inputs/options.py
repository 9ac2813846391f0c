"""Options of a request for the tokenization of its inputs."""

from dataclasses import dataclass, replace

from embedwell.inputs.content_input import ContentInput
from embedwell.inputs.image_input import ImageInput
from embedwell.inputs.prompts import Role
from embedwell_models.tokenizer.tokens import Side

TextOrIds = str | list[int]
"""An input: a text, or token ids."""
Input = TextOrIds | ImageInput | ContentInput
"""An input of a model that may also embed images, or texts with images."""


@dataclass(slots=True)
class InputOptions:
    """Prompt and truncation of the inputs of one request.

    truncate: None for the server's setting.
    side: which end to cut off; None for the side in the model's files.
    role, task: select a prompt, unless there is one. A task implies a role.
    max_length: maximum tokens of an input, or of the second text of a pair; None for the model's.
    max_pair: maximum tokens of a pair, or of each of its texts for a model that embeds.
    windows: split an input that is too long into windows instead of truncating it.
    count_dropped: count all tokens that are cut off, which requires tokenizing long texts
        completely.
    instruction: instruction to a reranker that is a language model; None for the model's.
    any_count: whether the request may have any number of inputs; their tokens are limited.
    """

    truncate: bool | None = None
    side: Side | None = None
    prompt: str | None = None
    prompt_name: str | None = None
    role: Role | None = None
    task: str | None = None
    windows: bool = False
    count_dropped: bool = False
    instruction: str | None = None
    max_length: int | None = None
    any_count: bool = False
    max_pair: int | None = None

    def with_max_length(self, max_length: int | None) -> "InputOptions":
        """Return the same options with another maximum length; unchanged for None."""
        return self if max_length is None else replace(self, max_length=max_length)
