"""Request fields for prompts, truncation and long inputs, and the options that they select."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from embedwell.errors import BadRequest, service_errors
from embedwell.routes.common.body import Body
from embedwell_models.read.inputs import SIDES, InputOptions, Overflow
from embedwell_models.read.prompts import TASK_ROLES, Role
from embedwell_models.tokenizer.tokens import Side

_DIRECTIONS = ["right", "left", "Right", "Left"]  # TEI's documentation capitalises the values


def _lowercase(value: Any) -> Any:
    return value.lower() if value in _DIRECTIONS else value


TruncationDirection = Annotated[
    Literal["right", "left"],
    BeforeValidator(_lowercase),
    Field(json_schema_extra={"enum": [*_DIRECTIONS]}),
]


class PromptBody(Body):
    """Fields that select the prompt before each text. Default: the model's default prompt.

    - `input_type`: the role of the texts, whose prompt is used. Default: no role, and the model's
      default prompt.
    - `task`: one of Jina's tasks, such as `retrieval.query`, whose prompt is used unless another
      field selects one. For a model with adapters, it selects the adapter, too.
    """

    prompt_name: str | None = None
    prompt: str | None = None
    input_type: Role | None = None
    task: str | None = None

    @property
    def role(self) -> Role | None:
        """Return the role of the texts, by input_type or task; raises BadRequest if they differ."""
        role = None if self.task is None else TASK_ROLES.get(self.task)
        if None not in (role, self.input_type) and role != self.input_type:
            raise BadRequest(
                f"input_type and task select different roles, {self.input_type} and {role}; "
                "leave one out",
                param="task",
            )
        return role or self.input_type

    def prompt_options(self) -> InputOptions:
        """Build options with the prompt alone; raises BadRequest for contradictory fields."""
        return InputOptions(
            prompt=self.prompt, prompt_name=self.prompt_name, role=self.role, task=self.task
        )


class ReadingBody(PromptBody):
    """Fields for prompts and for texts that exceed the model's limit.

    - `on_overflow`: how to handle a text that is too long: `error` rejects it, `start` and `end`
      cut tokens off at that side, `mean` returns the mean of its windows' vectors. Default: cut off
      at the side that the model's tokenizer configures, usually the end.
    - `truncate`: TEI's field: whether a text that is too long is cut off instead of rejected.
      Default: the server's setting.
    - `truncation_direction`: TEI's field: side at which tokens are cut off; Right is the end.
      Default: the side that the model's tokenizer configures, usually the end.
    - `input_type`: the role whose prompt is used.
    """

    truncate: bool | None = None
    truncation_direction: TruncationDirection | None = None
    on_overflow: Overflow | None = None

    def input_options(self, count_dropped: bool = False) -> InputOptions:
        """Build the tokenization options; raises BadRequest for contradictory fields.

        count_dropped: report how many tokens were cut off, even if that takes extra work.
        """
        return InputOptions(
            *(*_truncation(self), self.prompt, self.prompt_name, self.role, self.task),
            windows=self.on_overflow == "mean",
            count_dropped=count_dropped,
        )

    def options_without_windows(self) -> InputOptions:
        """Build the options; also raises BadRequest for a mean of windows."""
        options = self.input_options()
        with service_errors():
            options.check_no_windows()
        return options


class Options(Body):
    """Options of Hugging Face's hosted models; accepted and ignored.

    - `wait_for_model`, `use_cache`, `use_gpu`: sent by Hugging Face's clients; ignored.
    """

    wait_for_model: bool | None = None
    use_cache: bool | None = None
    use_gpu: bool | None = None


class InputBody(ReadingBody):
    """Fields for the model, prompts and long texts.

    - `model`: name of a served model. Default: the first one that embeds.
    - `wait_for_model`, `use_cache`, `use_gpu`: sent by Hugging Face's clients; ignored.
    - `options`: Hugging Face's object for the three; ignored.
    """

    input_fields: ClassVar[Sequence[str]] = ("inputs",)

    model: str | None = None
    options: Options | None = None
    wait_for_model: bool | None = None
    use_cache: bool | None = None
    use_gpu: bool | None = None


OPTION_FIELDS = frozenset(ReadingBody.model_fields)
"""The fields that `EmbedRequest.of_inputs` takes over from the body of another route."""


def refuse_fields_outside_parameters(body: Body, names: Collection[str]) -> None:
    """Raise BadRequest if a body with `parameters` has one of these fields next to it."""
    if repeated := sorted(body.model_fields_set.intersection(names)):
        raise BadRequest(
            f"give {repeated[0]} either in parameters or next to it, not in both", param=repeated[0]
        )


TruncateWord = Literal["NONE", "START", "END"]
"""Values of `truncate` in Cohere's and NIM's APIs."""

OVERFLOW: dict[TruncateWord | Side | bool | None, Literal["error", "start", "end"] | None] = {
    "NONE": "error",
    "START": "start",
    "END": "end",
    "left": "start",
    "right": "end",
    False: "error",
    True: "end",
    None: None,
}
"""Handling of a text that is too long, by the fields of other APIs."""

_TRUNCATING = ("on_overflow", "truncate", "truncation")
"""Fields that can allow truncation, of all routes."""
_VLLM_TRUNCATING = ("truncate_prompt_tokens",)
"""The same; for routes without the others, as it does not go with late chunking."""

NumberType = Literal["float", "int8", "uint8", "binary", "ubinary"]
"""Number types in Voyage's and Jina's APIs."""

InputType = Literal["query", "document", "passage"]
ROLES: dict[InputType | None, Role] = {
    "query": "query",
    "document": "document",
    "passage": "document",
}
"""Roles in Voyage's and NVIDIA's APIs."""

PairOverflow = Literal["error", "start", "end", "max"]
"""Handling of a pair that is too long; `max` takes the best score of the document's windows."""

TokenLimit = Annotated[int, Field(ge=-1)] | None
"""vLLM's maximum of tokens; -1 is the model's limit."""

Instruction = Annotated[str, Field(min_length=1, max_length=8192)] | None
"""Tells a reranker that is a language model what is relevant. Default: the model's instruction."""


class PairBody(Body):
    """Fields for text pairs that exceed the model's limit.

    - `on_overflow`: how to handle a pair that is too long: `error` rejects it, `start` and `end`
      cut tokens off the longer text at that side, `max` splits the second text into windows and
      takes their best score. Default: as `truncate` says.
    - `truncate`: TEI's field: whether a pair that is too long is cut off instead of rejected.
      Default: the server's setting, and true at /rerank with `documents`.
    - `truncation_direction`: TEI's field: side at which tokens are cut off; Right is the end.
      Default: the side that the model's tokenizer configures, usually the end.
    - `truncation_side`: vLLM's name of `truncation_direction`.
    - `instruction`: tells a reranker that is a language model what is relevant, in up to 8192
      characters. Default: the model's instruction.
    - `truncate_prompt_tokens`: vLLM's maximum of tokens of a pair, or of each of its texts for a
      model that embeds; longer ones are cut. -1 is the model's limit, the default.
    - `options`: sent by Hugging Face's clients; ignored.
    """

    truncate: bool | None = None
    truncation_direction: TruncationDirection | None = None
    truncation_side: Side | None = None
    on_overflow: PairOverflow | None = None
    options: Options | None = None
    instruction: Instruction = None
    truncate_prompt_tokens: TokenLimit = None

    def input_options(self) -> InputOptions:
        """Build the tokenization options; raises BadRequest for contradictory fields."""
        options = replace(self._truncation(), instruction=self.instruction)
        if self.truncate_prompt_tokens is None:
            return options
        max_pair = None if self.truncate_prompt_tokens == -1 else self.truncate_prompt_tokens
        return replace(cutting(options, "truncate_prompt_tokens"), max_pair=max_pair)

    def _truncation(self) -> InputOptions:
        truncate, side = _truncation(self)
        if self.truncation_side is not None:
            if side is not None:
                raise BadRequest(
                    "give either truncation_side or another field for the side, not both",
                    param="truncation_side",
                )
            side = self.truncation_side
        return InputOptions(truncate, side, windows=self.on_overflow == "max")


def _truncation(body: ReadingBody | PairBody) -> tuple[bool | None, Side | None]:
    """Return whether to truncate and at which side; raises BadRequest for contradictory fields."""
    if body.on_overflow is None:
        return body.truncate, body.truncation_direction
    if body.model_fields_set & {"truncate", "truncation_direction"}:
        raise BadRequest(
            "give either on_overflow or truncate and truncation_direction, not both",
            param="on_overflow",
        )
    side = SIDES.get(body.on_overflow)
    return side is not None, side


def truncation_advice(body_type: type[Body]) -> str:
    """Return the end of a message: the fields of a route that allow truncation, or the setting."""
    known = body_type.model_fields
    fields = [each for each in _TRUNCATING if each in known] or [
        each for each in _VLLM_TRUNCATING if each in known
    ]
    return f" with {' or '.join(fields) or 'the setting EMBEDWELL_AUTO_TRUNCATE of the server'}"


def cutting(options: InputOptions, param: str) -> InputOptions:
    """Return options that truncate, for a field that limits tokens; raises BadRequest.

    param: the field, which cannot be combined with one that forbids to truncate.
    """
    if options.windows or options.truncate is False:
        raise BadRequest(
            f"{param} truncates; leave it or the field that forbids that out", param=param
        )
    return replace(options, truncate=True)
