"""Request body of /v1/embeddings: the fields of OpenAI and of other servers with this route."""

from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from embedwell.api.array_format import EncodingFormat, OutputType
from embedwell.api.body import Body, examples
from embedwell.api.embed_request import EmbedRequest, OutputNames
from embedwell.api.openai_fields import (
    OVERFLOW,
    ROLES,
    Dtype,
    InputType,
    Modality,
    OpenAIInputs,
    Truncate,
    with_modality,
)
from embedwell.errors import BadRequest
from embedwell.inputs.prompts import TASK_ROLES, Role
from embedwell.request.limits import check_max_length
from embedwell_models.tokenizer.tokenizer import Tokenizer

_COMMON_FIELDS = {"input", "model", "encoding_format", "user"}
"""Most requests have no other fields, and skip the checks of the others."""


class EmbeddingsRequest(Body):
    """Request body of /v1/embeddings, with OpenAI's fields and those of other servers.

    - OpenAI: `input`, `model`, `encoding_format`, `dimensions`; `user` is ignored.
    - Voyage: `input_type`, `truncation`, `output_dtype`, `output_dimension`.
    - Jina: `task`, `truncate`, `embedding_type` or `encoding_type`, `normalized`, `late_chunking`,
      `return_multivector` (a vector for each token).
    - NIM: `input_type` passage; `truncate` NONE, START or END.
    - NIM and Infinity: `modality`: text or image, for all inputs or one for each.
    - vLLM: `truncate_prompt_tokens` (maximum tokens of an input, -1 for the model's limit),
      `add_special_tokens` (must be true), `normalize`.
    - This server: `outputs`: kinds of vectors to return for each input, from one forward pass.

    `drop_params` and `metadata` are ignored. A request with two fields of the same meaning is
    rejected.
    """

    model_config = examples(
        {"input": "Hello, world", "encoding_format": "base64"},
        {"input": ["Hello", "world"], "model": "all-MiniLM-L6-v2", "user": "someone"},
        {"input": "Hello, world", "input_type": "query", "output_dtype": "int8"},
        {"input": [[101, 7592, 102]], "task": "retrieval.passage", "embedding_type": "float"},
        {"input": "Hello, world", "return_multivector": True, "embedding_type": "binary"},
        {"input": [{"text": "Hello, world"}], "truncate_prompt_tokens": 4, "dimensions": 0},
    )

    input: OpenAIInputs
    model: str | None = None
    encoding_format: EncodingFormat | None = None
    dimensions: NonNegativeInt | None = None
    user: str | None = None
    input_type: InputType | None = None
    truncation: bool | None = None
    output_dtype: Dtype | None = None
    output_dimension: PositiveInt | None = None
    task: str | None = None
    truncate: Truncate | None = None
    embedding_type: Literal[Dtype, "base64"] | None = None
    encoding_type: Literal[Dtype, "base64"] | None = None
    normalized: bool | None = None
    late_chunking: bool | None = None
    return_multivector: bool | None = None
    modality: Modality | None = None
    truncate_prompt_tokens: Annotated[int, Field(ge=-1)] | None = None
    add_special_tokens: bool | None = None
    normalize: bool | None = None
    drop_params: bool | None = None
    metadata: dict[str, Any] | None = None
    outputs: OutputNames | None = None

    def to_embed_request(self, model_role: Role | None) -> EmbedRequest:
        """Convert to a request of /embed; raises BadRequest for contradictory fields.

        model_role: the role that a suffix of the model's name selects.
        """
        inputs: Any = self.input  # validation has replaced objects by texts or images
        if model_role is None and self.model_fields_set <= _COMMON_FIELDS:
            return EmbedRequest(inputs=inputs, encoding_format=self.encoding_format or "float")
        self._check_supported()
        dtype, encoding_format = self._output_format()
        return EmbedRequest(
            inputs=inputs if self.modality is None else with_modality(inputs, self.modality),
            **self._overflow(),
            input_type=self._role(model_role),
            task=self.task,
            dimensions=self._only_value("dimensions", "output_dimension") or None,
            normalize=self._only_value("normalize", "normalized") is not False,
            output_dtype=dtype,
            encoding_format=encoding_format,
            late_chunking=bool(self.late_chunking),
            outputs=self.outputs,
        )

    def max_length(self, tokenizer: Tokenizer) -> int | None:
        """Return the requested maximum of tokens per input, if any; raises BadRequest."""
        length = self.truncate_prompt_tokens
        if length is None or length == -1:
            return None
        check_max_length(length, tokenizer, "truncate_prompt_tokens")
        return length

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
            return {"truncate": True}
        return {"on_overflow": OVERFLOW[truncate]}

    def _output_format(self) -> tuple[OutputType, EncodingFormat]:
        names = "output_dtype", "embedding_type", "encoding_type"
        dtype: Literal[Dtype, "base64"] = self._only_value(*names) or "float"
        if dtype == "base64":
            self._only_value("embedding_type", "encoding_type", "encoding_format")
            return "float32", "base64"
        return "float32" if dtype == "float" else dtype, self.encoding_format or "float"

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
