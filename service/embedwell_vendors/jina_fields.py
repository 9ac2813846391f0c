"""Jina's fields of /v1/embeddings, and its objects for an input."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Tag
from pydantic_core import PydanticCustomError

from embedwell.routes.common.body import FAIL_FAST, Body, TokenIds, by_type, input_kind
from embedwell.routes.common.options import NumberType
from embedwell.routes.common.request_inputs import ImageInput
from embedwell_vendors.field_names import Excludes, SameAs


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
