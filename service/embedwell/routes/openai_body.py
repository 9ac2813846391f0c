"""Request body of /v1/embeddings, with OpenAI's fields and those of other servers."""

from typing import Annotated, Any, Literal, get_args

from pydantic import Discriminator, NonNegativeInt, PositiveInt, Tag

from embedwell.errors import BadRequest
from embedwell.routes.common.binary_fields import BinaryFields
from embedwell.routes.common.body import FAIL_FAST, WHOLE, examples
from embedwell.routes.common.dense_vectors import EmbedRequest, OutputNames
from embedwell.routes.common.options import OVERFLOW, TokenLimit, TruncateWord
from embedwell.routes.common.response_body import (
    EncodingFormat,
    OutputType,
    Vectors,
    convert_vectors,
    encode_rows,
)
from embedwell.routes.openai_inputs import (
    Conversation,
    Message,
    Modality,
    OpenAIInputs,
    conversation,
    with_modality,
)
from embedwell_models.read.prompts import TASK_ROLES, Role
from embedwell_models.tokenizer.tokens import Side
from embedwell_models.vectors import Floats

ROLES: dict[str | None, Role] = {
    "query": "query",
    "document": "document",
    "passage": "document",
}
_COMMON_FIELDS = {"input", "model", "encoding_format", "user"}
"""Most requests have no other fields, and skip the checks of the others."""

Dtype = Literal["float", "int8", "uint8", "binary", "ubinary"]
InputType = Literal["query", "document", "passage"]


def _truncate_kind(value: Any) -> str | None:
    if isinstance(value, bool):
        return "<flag>"
    return "<word>" if value in get_args(TruncateWord) else None


Truncate = Annotated[
    Annotated[bool, Tag("<flag>")] | Annotated[TruncateWord, Tag("<word>")],
    Discriminator(
        _truncate_kind,
        custom_error_type="truncate",  # a Literal would accept 1 and 1.0 as true
        custom_error_message="Input should be true, false, 'NONE', 'START' or 'END'",
    ),
]


class EmbeddingsRequest(BinaryFields):
    """Request body of /v1/embeddings, with OpenAI's fields and those of other servers.

    - `input`: a text, its token ids, an object with a text or an image, or a list of these.
    - `messages`: vLLM's, in place of `input`: one message with one text or one image, or a
      conversation for a model that reads its texts in a chat template.
    - `add_generation_prompt`, `continue_final_message`: vLLM's, for such a model: the start of the
      reply is part of its format with each of them, and without.
    - `user`: OpenAI's id of an end user; ignored.
    - `input_type`: the role of the texts, whose prompt is used; `passage` is NVIDIA's name of
      `document`. Default: no role, and the model's default prompt.
    - `truncation`: Voyage's name of `truncate`: false refuses a text that is too long.
    - `output_dtype`: Voyage's name of the number type: `int8` and `uint8` are scaled by each
      vector's largest component, and `binary` and `ubinary` have one bit for each dimension, 8 in a
      byte. Default: `float`.
    - `dimensions`: number of dimensions that are kept of each vector, from 1 to the model's, for a
      model trained for it (Matryoshka). Default, and for 0: all.
    - `task`: Jina's name of what the vectors are for, whose prompt and adapter are used, such as
      `retrieval.query`.
    - `truncate`: false or `NONE` refuses a text that is too long, true or `END` cuts off its end,
      and `START` its start. Default: the server's setting.
    - `embedding_type`, `encoding_type`: Jina's name of `output_dtype`; `base64` returns the bytes
      of float32 numbers.
    - `normalized`: Jina's name of `normalize`.
    - `normalize`, `use_activation`: whether each vector is scaled to length 1. Default: true.
    - `late_chunking`: Jina's: the inputs are consecutive chunks of one text, each of which is
      embedded with the whole text as context. Default: false.
    - `return_multivector`: Jina's: return a vector for each token. Default: false.
    - `modality`: NVIDIA's and Infinity's: whether inputs are texts or images in base64, for all
      inputs or one for each. Default: what each input is.
    - `truncate_prompt_tokens`: vLLM's maximum of tokens of an input, beyond which it is cut; -1 is
      the model's limit. Default: the model's limit.
    - `add_special_tokens`: vLLM's; must be true, because texts always get the model's special
      tokens.
    - `drop_params`, `metadata`: sent by LiteLLM's and Mistral's clients; ignored.
    - `outputs`: this server's: kinds of vectors to return for each input, from one forward pass.
      Default: one dense vector.

    A request with two fields of the same meaning is rejected.
    """

    model_config = examples(
        {"input": ["Hello", "world"], "model": "all-MiniLM-L6-v2", "user": "someone"},
        {"input": "Hello, world", "encoding_format": "base64"},
        {"input": "Hello, world", "input_type": "query", "output_dtype": "int8"},
        {"input": [[101, 7592, 102]], "task": "retrieval.passage", "embedding_type": "float"},
        {"input": "Hello, world", "return_multivector": True, "embedding_type": "binary"},
        {"input": [{"text": "Hello, world"}], "truncate_prompt_tokens": 4, "dimensions": 0},
    )

    voyage_fields = frozenset({"truncation"})

    input_fields = ("input", "messages")

    input: OpenAIInputs | None = None
    messages: Annotated[list[Message], FAIL_FAST] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    model: str | None = None
    dimensions: Annotated[NonNegativeInt, WHOLE] | None = None
    input_type: InputType | None = None
    truncation: bool | None = None
    output_dtype: Dtype | None = None
    output_dimension: Annotated[PositiveInt, WHOLE] | None = None
    task: str | None = None
    truncate: Truncate | None = None
    embedding_type: Literal[Dtype, "base64"] | None = None
    encoding_type: Literal[Dtype, "base64"] | None = None
    normalized: bool | None = None
    late_chunking: bool | None = None
    return_multivector: bool | None = None
    modality: Modality | None = None
    truncate_prompt_tokens: TokenLimit = None
    truncation_side: Side | None = None
    add_special_tokens: bool | None = None
    normalize: bool | None = None
    use_activation: bool | None = None
    drop_params: bool | None = None
    metadata: dict[str, Any] | None = None
    outputs: OutputNames | None = None

    def to_embed_request(
        self, model_role: Role | None, model: str, reads_messages: bool = False
    ) -> EmbedRequest:
        """Convert to a request of /embed; raises BadRequest for contradictory fields.

        model_role: the role that a suffix of the model's name selects. model: the model's name,
        for errors. reads_messages: whether it reads texts in a chat template.
        """
        content = self._content(model, reads_messages)
        inputs: Any = content.input
        dtype, encoding_format = self._output_format()
        if model_role is None and self.model_fields_set <= _COMMON_FIELDS:
            return EmbedRequest(inputs=inputs, encoding_format=encoding_format)
        self._check_supported()
        return EmbedRequest(
            inputs=inputs if self.modality is None else with_modality(inputs, self.modality),
            **self._overflow(),
            prompt=content.instruction,
            input_type=self._role(model_role),
            task=self.task,
            dimensions=self._only_value("dimensions", "output_dimension") or None,
            normalize=self._only_value("normalize", "normalized", "use_activation") is not False,
            output_dtype=dtype,
            encoding_format=encoding_format,
            late_chunking=bool(self.late_chunking),
            outputs=self.outputs,
        )

    @property
    def max_length(self) -> int | None:
        """The requested maximum of tokens per input; None for the model's."""
        return None if self.truncate_prompt_tokens == -1 else self.truncate_prompt_tokens

    def _content(self, model: str, reads_messages: bool) -> Conversation:
        if self.messages is not None:
            if self.input is not None:
                raise BadRequest("give either input or messages, not both", param="messages")
            self._check_template(reads_messages)
            return conversation(self.messages, model, reads_messages)
        if self.input is None:
            raise BadRequest("input: Field required", param="input")
        inputs: Any = self.input  # validation has replaced objects by texts or images
        return Conversation(inputs)

    def _check_template(self, reads_messages: bool) -> None:
        if self.add_generation_prompt and self.continue_final_message:
            raise BadRequest(
                "Cannot set both `continue_final_message` and `add_generation_prompt` to True.",
                param="add_generation_prompt",
            )
        for field in ("add_generation_prompt", "continue_final_message"):
            if getattr(self, field) and not reads_messages:
                raise BadRequest(
                    f"{field} is for a model that reads texts in a chat template; leave it out",
                    code="not_offered",
                    param=field,
                )

    def _check_supported(self) -> None:
        if self.return_multivector:
            self._check_without("return_multivector", "late_chunking", "dimensions")
            self._check_without("return_multivector", "output_dimension")
        if self.truncate_prompt_tokens is not None:
            self._check_without("truncate_prompt_tokens", "late_chunking", "outputs")
        if self.outputs is not None:
            self._check_without("outputs", "return_multivector")
        if self.add_special_tokens is False:
            raise BadRequest(
                "add_special_tokens must be true: texts always get the model's special "
                "tokens; send token ids to leave them out",
                code="not_offered",
                param="add_special_tokens",
            )

    def _check_without(self, field: str, *others: str) -> None:
        for name in others:
            if getattr(self, name):
                raise BadRequest(
                    f"{name} cannot be combined with {field}; leave one of them out", param=name
                )

    def _overflow(self) -> dict[str, Any]:
        truncate = self._only_value("truncate", "truncation", "truncate_prompt_tokens")
        if self.truncate_prompt_tokens is not None:
            return {"truncate": True, "truncation_direction": self.truncation_side}
        if self.truncation_side is not None:
            self._only_value("truncate", "truncation", "truncation_side")
            return {"on_overflow": "start" if self.truncation_side == "left" else "end"}
        return {"on_overflow": OVERFLOW[truncate]}

    def _output_format(self) -> tuple[OutputType, EncodingFormat]:
        names = "output_dtype", "embedding_type", "encoding_type"
        dtype: Literal[Dtype, "base64"] = self._only_value(*names) or "float"
        if field := self._field_of_base64():
            self._only_value(*names, "embed_dtype")
            self._check_without(field, "outputs", "return_multivector")
            if self.wants_bytes:
                self._check_without("encoding_format", *names)
            elif dtype != "float" or self.encoding_format != "base64":
                raise BadRequest(
                    f"{field} is of the numbers in base64 or bytes; send encoding_format base64, "
                    "too, or output_dtype in its place",
                    param=field,
                )
            return "float32", "base64"
        if dtype == "base64":
            self._only_value("embedding_type", "encoding_type", "encoding_format")
            return "float32", "base64"
        in_base64 = self.encoding_format == "base64"
        return "float32" if dtype == "float" else dtype, "base64" if in_base64 else "float"

    def _field_of_base64(self) -> str:
        """Return the field that asks for bytes, or for other numbers in base64; "" for none."""
        if self.wants_bytes:
            return "encoding_format"
        if self.embed_dtype not in (None, "float32"):
            return "embed_dtype"
        return "endianness" if self.endianness == "big" else ""

    def encode(self, vectors: Floats, request: EmbedRequest) -> Vectors:
        """Encode the vectors of the inputs (B, D) as the fields say; raises NotFinite."""
        if not self._field_of_base64():
            return encode_vectors(vectors, request)
        return encode_rows(self.binary(vectors), "base64")

    def _role(self, model_role: Role | None) -> Role | None:
        candidates = (model_role, ROLES.get(self.input_type), TASK_ROLES.get(self.task or ""))
        roles = {role for role in candidates if role is not None}
        if len(roles) > 1:
            raise BadRequest(
                f"model, input_type and task select different roles, {sorted(roles)}; leave "
                "out all but one",
                param="task" if self.task else "input_type",
            )
        return next(iter(roles), None)

    def _only_value(self, *names: str) -> Any:
        """Return the value of the only field that is set; raises BadRequest if two are set."""
        present = [name for name in names if getattr(self, name) is not None]
        if len(present) > 1:
            raise BadRequest(
                f"give either {present[0]} or {present[1]}, not both", param=present[1]
            )
        return getattr(self, present[0]) if present else None


def encode_vectors(vectors: Floats, request: EmbedRequest) -> Vectors:
    """Encode vectors (B, D) in the number type and format that a request asks for."""
    return encode_rows(convert_vectors(vectors, request.output_dtype), request.encoding_format)
