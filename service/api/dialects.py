"""The body of /v1/embeddings: OpenAI's fields, and Voyage's, Jina's and NIM's beside them."""

from typing import Annotated, Any, Literal, get_args

from pydantic import Discriminator, PositiveInt, Tag

from service.api.body import FIRST, Body, Inputs, Overflow, example
from service.api.embed import EmbedRequest
from service.api.output import Encoding, OutputType
from service.errors import BadRequest
from service.reading.prompts import Role

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


class EmbeddingsRequest(Body):
    """OpenAI's request: input, model, encoding_format, dimensions, and user, which is not used.

    The other fields are those of Voyage (input_type, truncation, output_dtype, output_dimension),
    of Jina (task, truncate, embedding_type, normalized, late_chunking, return_multivector: a vector
    for each token) and of NIM (input_type passage, truncate NONE, START or END,
    modality, which is text). Two fields that say the same are refused together.
    """

    model_config = example(
        {"input": ["Hello", "world"], "model": "all-MiniLM-L6-v2", "user": "someone"},
        {"input": "Hello, world", "input_type": "query", "output_dtype": "int8"},
        {"input": [[101, 7592, 102]], "task": "retrieval.passage", "embedding_type": "float"},
        {"input": "Hello, world", "return_multivector": True, "embedding_type": "binary"},
        input="Hello, world",
        encoding_format="base64",
    )

    input: Inputs
    model: str | None = None
    encoding_format: Encoding | None = None
    dimensions: PositiveInt | None = None
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
    normalized: bool = True
    late_chunking: bool = False
    return_multivector: bool = False
    modality: Modality | None = None

    def native(self, role: Role | None) -> EmbedRequest:
        """The same in our words. role: what the model's name tells. Raises BadRequest."""
        if self.return_multivector:
            self._check_multivector()
        dtype, encoding = self._output()
        return EmbedRequest(
            inputs=self.input,
            on_overflow=OVERFLOW[self._one("truncate", "truncation")],
            input_type=self._role(role),
            dimensions=self._one("dimensions", "output_dimension"),
            normalize=self.normalized,
            output_dtype=dtype,
            encoding_format=encoding,
            late_chunking=self.late_chunking,
        )

    def _check_multivector(self) -> None:
        for name in ("late_chunking", "dimensions", "output_dimension"):
            if getattr(self, name):
                raise BadRequest(f"{name} does not go with return_multivector", param=name)

    def _output(self) -> tuple[OutputType, Encoding]:
        kind: Literal[Kind, "base64"] = self._one("output_dtype", "embedding_type") or "float"
        if kind == "base64":
            self._one("embedding_type", "encoding_format")
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
