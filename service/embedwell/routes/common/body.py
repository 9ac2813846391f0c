"""Base class of request bodies, input types that several bodies share, and limits of JSON."""

import json
from codecs import BOM_UTF8
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    FiniteFloat,
    Tag,
    ValidationError,
)
from pydantic_core import from_json, to_json

from embedwell.doors import load
from embedwell.errors import Path, TooLarge
from embedwell.routes.common.common_fields import RequestModel
from embedwell.routes.common.request_inputs import ContentInput, ImageInput, Input

FAIL_FAST = Field(fail_fast=True)
"""Stops at the first invalid item of a list: reporting a million of them would take seconds."""


_MAX_REMOVALS = 8
"""Times that unknown null fields are removed; each removal is of all fields that errors name."""


class Body(RequestModel):
    """Immutable request body that rejects unknown fields and converts no types.

    An unknown field that is null counts as absent, because many clients send unset options so.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    wider: ClassVar[str] = ""
    """Name of a subclass with more fields, see doors.load, which reads what this class rejects."""
    voyage_fields: ClassVar[Collection[str]] = frozenset()
    """Fields that only Voyage's clients send."""
    input_fields: ClassVar[Sequence[str]] = ()
    """Fields that have one entry for each input, whose position errors have as their index."""

    @classmethod
    def has_voyage_fields(cls, text: bytes) -> bool:
        """Tell whether a body, which may be invalid, has fields that only Voyage's clients send."""
        if not cls.voyage_fields:
            return False
        try:
            fields = from_json(text)
        except ValueError:
            return False
        return isinstance(fields, dict) and not fields.keys().isdisjoint(cls.voyage_fields)

    @classmethod
    def widest(cls) -> type[Self]:
        """Return the class that has all fields of the route."""
        return load(cls.wider) if cls.wider else cls

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """Read a body from JSON; raises ValidationError of the class with all fields."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            if cls.wider:
                return cls.widest().parse(text)
            if text.startswith(BOM_UTF8):  # as files of some editors do
                return cls.parse(text.removeprefix(BOM_UTF8))
            if (repaired := _without_lone_surrogates(text, error)) is not None:
                return cls.parse(repaired)
            if not _unknown_nulls(error):
                raise
            return cls._parse_without_nulls(text, error)

    @classmethod
    def _parse_without_nulls(cls, text: bytes, error: ValidationError) -> Self:
        # A list stops at its first invalid item, so that one pass may not name all fields.
        value = from_json(text)
        for _ in range(_MAX_REMOVALS):
            for location in _unknown_nulls(error):
                _remove(value, location)
            try:
                return cls.model_validate_json(to_json(value, inf_nan_mode="constants"))
            except ValidationError as remaining:
                error = remaining
        raise error


def _without_lone_surrogates(text: bytes, error: ValidationError) -> bytes | None:
    """Replace each half of a surrogate pair in a body by U+FFFD; None for another kind of error.

    Programs whose texts are UTF-16 send one after they have cut a text inside an emoji.
    """
    problem = error.errors(include_input=False)[0]
    if problem["type"] != "json_invalid" or "hex escape" not in problem["msg"]:
        return None
    try:
        whole = json.dumps(json.loads(text.decode()), ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    return whole.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _unknown_nulls(error: ValidationError) -> list[tuple[int | str, ...]]:
    """Return the locations of unknown fields that are null."""
    return [
        problem["loc"]
        for problem in error.errors(include_url=False, include_context=False)
        if problem["type"] == "extra_forbidden" and problem["input"] is None
    ]


def _remove(value: Any, location: Sequence[int | str]) -> None:
    """Remove a null field from its object, and from the other objects of its list."""
    if isinstance(value, list):
        for item in value:
            _remove(item, location[1:] if isinstance(location[0], int) else location)
    elif isinstance(value, dict):
        name, *rest = location
        if not rest:
            if name in value and value[name] is None:
                del value[name]
        else:  # a location also has names of a union's branches
            _remove(value.get(name, value), rest)


def examples(*bodies: dict[str, Any]) -> ConfigDict:
    """Create a model configuration with example bodies for the OpenAPI document."""
    return ConfigDict(json_schema_extra={"examples": [*bodies]})


def input_kind(value: Any) -> str:
    """Return the member of the union `Inputs` that a value is meant to be."""
    if isinstance(value, str):
        return "<text>"
    if isinstance(value, list):
        return "<ids>" if value and isinstance(value[0], int) else "<batch>"
    if is_content(value):
        return "<content>"
    return "<image>" if is_image(value) else "<batch>"


def is_image(value: Any) -> bool:
    """Return whether a value is meant to be an ImageInput."""
    return isinstance(value, ImageInput) or (isinstance(value, dict) and "image" in value)


def is_content(value: Any) -> bool:
    """Return whether a value is meant to be a ContentInput."""
    return isinstance(value, ContentInput) or (isinstance(value, dict) and "content" in value)


def _item_kind(value: Any) -> str:
    if isinstance(value, str):
        return "<text>"
    if isinstance(value, list):
        return "<ids>"
    if is_content(value):
        return "<content>"
    return "<image>" if is_image(value) else "<text>"


TokenIds = Annotated[list[int], FAIL_FAST]
Image = Annotated[ImageInput, Tag("<image>")]
_Content = Annotated[ContentInput, Tag("<content>")]
_InputItem = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[TokenIds, Tag("<ids>")] | Image | _Content,
    Discriminator(_item_kind),
]

Inputs = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[TokenIds, Tag("<ids>")]
    | Image
    | _Content
    | Annotated[list[_InputItem], FAIL_FAST, Tag("<batch>")],
    Discriminator(input_kind),
]
"""A text, its token ids, an image, a text with images, or a list of these."""


def input_list(inputs: Any) -> list[Input]:
    """Return `Inputs` as a list."""
    return [inputs] if input_kind(inputs) != "<batch>" else inputs


def by_type(tags: Mapping[type, str], otherwise: str) -> Discriminator:
    """Choose the member of a union by the type of a value."""
    return Discriminator(lambda value: tags.get(type(value), otherwise))


TextList = Annotated[list[str], FAIL_FAST]
Texts = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[TextList, Tag("<texts>")],
    by_type({str: "<text>"}, "<texts>"),
]
"""A text or a list of texts."""


def text_list(texts: str | list[str]) -> list[str]:
    """Return `Texts` as a list."""
    return [texts] if isinstance(texts, str) else texts


_TextOrIds = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[TokenIds, Tag("<ids>")],
    by_type({list: "<ids>"}, "<text>"),
]

_TEXT_KINDS = ("<text>", "<ids>")
TextInputs = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[TokenIds, Tag("<ids>")]
    | Annotated[list[_TextOrIds], FAIL_FAST, Tag("<batch>")],
    Discriminator(lambda value: kind if (kind := input_kind(value)) in _TEXT_KINDS else "<batch>"),
]
"""A text, its token ids, or a list of these."""


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)
"""Takes 384.0 for 384, as clients send it whose language has no whole numbers."""


def _null_to_true(value: Any) -> Any:
    return True if value is None else value


TrueByDefault = Annotated[bool, BeforeValidator(_null_to_true, json_schema_input_type=bool | None)]
"""A flag that is true unless the request has false; null counts as absent."""


def _side_kind(value: Any) -> str:
    if isinstance(value, str):
        return "<text>"
    if is_image(value):
        return "<image>"
    vectors = isinstance(value, list) and value and isinstance(value[0], list)
    return "<vectors>" if vectors else "<side>"


_SideItem = Annotated[
    Annotated[str, Tag("<text>")] | Image,
    Discriminator(lambda value: "<image>" if is_image(value) else "<text>"),
]
ComparisonInput = Annotated[
    Annotated[str, Tag("<text>")]
    | Image
    | Annotated[list[_SideItem], FAIL_FAST, Tag("<side>")]
    | Annotated[list[Annotated[list[FiniteFloat], FAIL_FAST]], FAIL_FAST, Tag("<vectors>")],
    Discriminator(_side_kind),
]
"""A text, an image, a list of these, or a list of vectors."""


TextsByPath = dict[Path, str | ImageInput]
"""Texts and images by their path in the request."""


def texts_by_path(value: Any, *path: str) -> TextsByPath:
    """Return the texts and images of the input at `path`; empty if the input is vectors."""
    if isinstance(value, str | ImageInput):
        return {path: value}
    if _side_kind(value) == "<vectors>":
        return {}
    return {(*path, index): text for index, text in enumerate(value)}


JSON_LIMITS = {
    b":": ("fields", 10_000),
    b"{": ("objects", 10_000),
    b"[": ("lists", 50_000),
    b",": ("values", 1_000_000),
}
"""Limit of each kind of part of a body, by the character that counts it outside strings."""

_SMALLEST_JSON_LIMIT = min(limit for _, limit in JSON_LIMITS.values())


def check_json_parts(text: bytes) -> None:
    """Raise TooLarge for a JSON body with too many parts, before it is parsed.

    Validating millions of them would block the event loop for seconds.
    """
    if len(text) <= _SMALLEST_JSON_LIMIT:
        return
    exceeded = [char for char, (_, limit) in JSON_LIMITS.items() if text.count(char) > limit]
    if not exceeded:
        return
    # Keep the bytes before the first quotation mark, after the second, and so on.
    chars = np.frombuffer(text.replace(rb"\\", b"").replace(rb"\"", b""), np.uint8)
    stripped = chars[~np.logical_xor.accumulate(chars == ord('"'))].tobytes()
    for char in exceeded:
        name, limit = JSON_LIMITS[char]
        if stripped.count(char) > limit:
            raise TooLarge(
                f"the body has more than {limit} {name}; split the request", code="too_many_parts"
            )
