"""The body of /v1/embeddings: OpenAI's fields, and those of others who have its route."""

from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Discriminator, Field, NonNegativeInt, PositiveInt, Tag

from models.tokenizer.tokenizer import Tokenizer
from service.api.array_format import Encoding, OutputType
from service.api.body import FIRST, Body, Ids, Overflow, example, shape
from service.api.embed import EmbedRequest
from service.errors import BadRequest
from service.inputs.prompts import Role
from service.request.limits import check_length

Kind = Literal["float", "int8", "uint8", "binary", "ubinary"]
Cut = Literal["NONE", "START", "END"]
"""Cohere's and NIM's words for what becomes of a long text."""

OVERFLOW: dict[Cut | bool | None, Overflow | None] = {
    "NONE": "error",
    "START": "start",
    "END": "end",
    False: "error",
    True: "end",
    None: None,
}

_ROLES: dict[str | None, Role] = {
    "query": "query",
    "document": "document",
    "passage": "document",
    "retrieval.query": "query",
    "retrieval.passage": "document",
    "classification": "classification",
    "separation": "clustering",
}


def _count(value: Any) -> str:
    return "<one>" if isinstance(value, str) else "<some>"


Modality = Annotated[
    Annotated[Literal["text"], Tag("<one>")]
    | Annotated[list[Literal["text"]], FIRST, Tag("<some>")],
    Discriminator(_count),
]


def _way(value: Any) -> str | None:
    if isinstance(value, bool):
        return "<flag>"
    return "<word>" if value in get_args(Cut) else None


Truncate = Annotated[
    Annotated[bool, Tag("<flag>")] | Annotated[Cut, Tag("<word>")],
    Discriminator(
        _way,
        custom_error_type="truncate",  # in a Literal 1 and 1.0 would be true
        custom_error_message="Input should be true, false, 'NONE', 'START' or 'END'",
    ),
]


class TextObject(Body):
    """Jina's input that has room for images."""

    text: str


def _text(item: TextObject) -> str:
    return item.text


def _element(value: Any) -> str:
    if isinstance(value, str):
        return "<text>"
    return "<object>" if isinstance(value, dict) else "<ids>"


def _shape(value: Any) -> str:
    return "<object>" if isinstance(value, dict) else shape(value)


_Text = Annotated[TextObject, AfterValidator(_text), Tag("<object>")]
_Element = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[Ids, Tag("<ids>")] | _Text, Discriminator(_element)
]
Inputs = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[Ids, Tag("<ids>")]
    | Annotated[list[_Element], FIRST, Tag("<batch>")]
    | _Text,
    Discriminator(_shape),
]
"""A text, its token ids, or a list of either; an object of a text is that text."""


_PLAIN = {"input", "model", "encoding_format", "user"}
"""The fields of most requests, which take a shorter way."""


class EmbeddingsRequest(Body):
    """OpenAI's request: input, model, encoding_format, dimensions, and user, which is not used.

    The other fields are those of Voyage (input_type, truncation, output_dtype, output_dimension),
    of Jina (task, truncate, embedding_type or encoding_type, normalized, late_chunking,
    return_multivector: a vector for each token), of NIM (input_type passage, truncate NONE, START
    or END, modality, which is text) and of vLLM (truncate_prompt_tokens: the most tokens of an
    input, -1 as many as the model reads; add_special_tokens, which is true; normalize).
    drop_params and metadata are not used. Two fields that say the same are refused together.
    """

    model_config = example(
        {"input": ["Hello", "world"], "model": "all-MiniLM-L6-v2", "user": "someone"},
        {"input": "Hello, world", "input_type": "query", "output_dtype": "int8"},
        {"input": [[101, 7592, 102]], "task": "retrieval.passage", "embedding_type": "float"},
        {"input": "Hello, world", "return_multivector": True, "embedding_type": "binary"},
        {"input": [{"text": "Hello, world"}], "truncate_prompt_tokens": 4, "dimensions": 0},
        input="Hello, world",
        encoding_format="base64",
    )

    input: Inputs
    model: str | None = None
    encoding_format: Encoding | None = None
    dimensions: NonNegativeInt | None = None
    user: str | None = None
    input_type: Literal["query", "document", "passage"] | None = None
    truncation: bool | None = None
    output_dtype: Kind | None = None
    output_dimension: PositiveInt | None = None
    task: (
        Literal[
            "retrieval.query",
            "retrieval.passage",
            "text-matching",
            "classification",
            "separation",
        ]
        | None
    ) = None
    truncate: Truncate | None = None
    embedding_type: Literal[Kind, "base64"] | None = None
    encoding_type: Literal[Kind, "base64"] | None = None
    normalized: bool | None = None
    late_chunking: bool | None = None
    return_multivector: bool | None = None
    modality: Modality | None = None
    truncate_prompt_tokens: Annotated[int, Field(ge=-1)] | None = None
    add_special_tokens: bool | None = None
    normalize: bool | None = None
    drop_params: bool | None = None
    metadata: dict[str, Any] | None = None

    def native(self, role: Role | None) -> EmbedRequest:
        """The same in our words. role: what the model's name tells. Raises BadRequest."""
        inputs: Any = self.input  # in which objects have become texts
        if role is None and self.model_fields_set <= _PLAIN:
            return EmbedRequest(inputs=inputs, encoding_format=self.encoding_format or "float")
        return self._native(inputs, role)

    def _native(self, inputs: Any, role: Role | None) -> EmbedRequest:
        self._check_offered()
        dtype, encoding = self._output()
        return EmbedRequest(
            inputs=inputs,
            **self._overflow(),
            input_type=self._role(role),
            dimensions=self._one("dimensions", "output_dimension") or None,
            normalize=self._one("normalize", "normalized") is not False,
            output_dtype=dtype,
            encoding_format=encoding,
            late_chunking=bool(self.late_chunking),
        )

    def length(self, tokenizer: Tokenizer) -> int | None:
        """The most tokens of an input, if the client says so; raises BadRequest."""
        asked = self.truncate_prompt_tokens
        if asked is None or asked == -1:
            return None
        check_length(asked, tokenizer, "truncate_prompt_tokens")
        return asked

    def _check_offered(self) -> None:
        if self.return_multivector:
            self._check_apart("return_multivector", "late_chunking", "dimensions")
            self._check_apart("return_multivector", "output_dimension")
        if self.truncate_prompt_tokens is not None:
            self._check_apart("truncate_prompt_tokens", "late_chunking")
        if self.add_special_tokens is False:
            raise BadRequest(
                "add_special_tokens is false: here the model's special tokens are always put "
                "around a text; send token ids to leave them out",
                code="not_offered",
                param="add_special_tokens",
            )

    def _check_apart(self, given: str, *others: str) -> None:
        for name in others:
            if getattr(self, name):
                raise BadRequest(f"{name} does not go with {given}", param=name)

    def _overflow(self) -> dict[str, Any]:
        truncate = self._one("truncate", "truncation", "truncate_prompt_tokens")
        if self.truncate_prompt_tokens is not None:
            return {"truncate": True}
        return {"on_overflow": OVERFLOW[truncate]}

    def _output(self) -> tuple[OutputType, Encoding]:
        names = "output_dtype", "embedding_type", "encoding_type"
        kind: Literal[Kind, "base64"] = self._one(*names) or "float"
        if kind == "base64":
            self._one("embedding_type", "encoding_type", "encoding_format")
            return "float32", "base64"
        return "float32" if kind == "float" else kind, self.encoding_format or "float"

    def _role(self, named: Role | None) -> Role | None:
        told = (named, _ROLES.get(self.input_type), _ROLES.get(self.task))
        roles = {role for role in told if role is not None}
        if len(roles) > 1:
            raise BadRequest(
                f"model, input_type and task tell different roles: {sorted(roles)}",
                param="task" if self.task else "input_type",
            )
        return next(iter(roles), None)

    def _one(self, *names: str) -> Any:
        """The value of the one field that is given of several; raises BadRequest for two."""
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) > 1:
            raise BadRequest(f"give {given[0]} or {given[1]}, not both", param=given[1])
        return getattr(self, given[0]) if given else None
