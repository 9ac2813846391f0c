"""Jina's fields of /v1/embeddings, its objects for an input, and its responses."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, Discriminator, NonNegativeInt, Tag
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from embedwell.routes.cohere import CohereMeta
from embedwell.routes.common.body import FAIL_FAST, Body, TokenIds, by_type, input_kind
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.documents import PlainRanked, Ranked
from embedwell.routes.common.field_names import Excludes, SameAs
from embedwell.routes.common.options import NumberType
from embedwell.routes.common.request_inputs import ImageInput
from embedwell.routes.common.response_body import Vectors
from embedwell.routes.common.response_types import Input, OpenAIUsage


class InputObject(Body):
    """Jina's object for an input: a text, or an image as a data URL or in base64.

    - `text`: the text. Give one of the two fields.
    - `image`: a PNG, JPEG, WebP or GIF as a data URL or in base64.
    """

    text: str | None = None
    image: str | None = None


def _content_of_object(item: InputObject) -> str | ImageInput:
    if item.text is None and item.image is not None:
        return ImageInput(image=item.image)
    if item.text is None or item.image is not None:
        raise PydanticCustomError("object", "Input should have either a text or an image")
    return item.text


def _input_kind(value: Any) -> str:
    return "<object>" if isinstance(value, dict) else input_kind(value)


_Text = Annotated[str, Tag("<text>")]
_Object = Annotated[InputObject, AfterValidator(_content_of_object), Tag("<object>")]
_InputItem = Annotated[
    _Text | Annotated[TokenIds, Tag("<ids>")] | _Object,
    by_type({list: "<ids>", dict: "<object>"}, "<text>"),
]

InputsOrObjects = Annotated[
    _Text
    | Annotated[TokenIds, Tag("<ids>")]
    | Annotated[list[_InputItem], FAIL_FAST, Tag("<batch>")]
    | _Object,
    Discriminator(_input_kind),
]
"""A text, its token ids, or a list of either; validation turns objects into texts and images."""

TextsOrObjects = Annotated[
    _Text
    | _Object
    | Annotated[
        list[Annotated[_Text | _Object, by_type({dict: "<object>"}, "<text>")]],
        FAIL_FAST,
        Tag("<batch>"),
    ],
    by_type({list: "<batch>", dict: "<object>"}, "<text>"),
]
"""A text, an object, or a list of either; validation turns objects into texts and images."""

_EmbeddingType = Annotated[Literal[NumberType, "base64"] | None, SameAs("output_dtype")]


class JinaFields(Body):
    """Jina's fields of /v1/embeddings.

    - `task`: Jina's name of what the vectors are for, whose prompt and adapter are used, such as
      `retrieval.query`.
    - `embedding_type`, `encoding_type`: Jina's name of `output_dtype`; `base64` returns the bytes
      of float32 numbers.
    - `normalized`: Jina's name of `normalize`.
    - `late_chunking`: Jina's: the inputs are consecutive chunks of one text, each of which is
      embedded with the whole text as context. Default: false.
    - `return_multivector`: Jina's: return a vector for each token. Default: false.
    """

    task: str | None = None
    embedding_type: _EmbeddingType = None
    encoding_type: _EmbeddingType = None
    normalized: Annotated[bool | None, SameAs("normalize")] = None
    late_chunking: bool | None = None
    return_multivector: Annotated[bool | None, Excludes(("late_chunking", "dimensions"))] = None


@forbid_extra
class JinaEmbeddings(TypedDict):
    """Result of one input with `return_multivector`: a vector for each token.

    - `object`: always `embedding`.
    - `index`: position of the input in the request's list, from 0.
    - `embeddings`: a vector for each token, in the order of the text.
    """

    object: Literal["embedding"]
    index: NonNegativeInt
    embeddings: Vectors


@forbid_extra
class JinaRanking(TypedDict):
    """Response to a request with `documents`, in Jina's and Infinity's format.

    - `results`: documents are texts if the request has `raw_scores`, as from Infinity's clients,
      else objects.
    - `inputs`: only with `details`; describes all documents in the request's order.
    - `data`: the results again, for Voyage's clients, if the request has nothing that tells whose
      client sent it.
    - `meta`: for Cohere's clients.
    - `object`: always `rerank`.
    """

    id: str
    object: Literal["rerank"]
    model: str
    usage: OpenAIUsage
    results: list[Ranked] | list[PlainRanked]
    meta: CohereMeta
    inputs: NotRequired[list[Input]]
    data: NotRequired[list[PlainRanked]]
