"""Describe the fields of JSON objects in the OpenAPI document, from the docstrings of their types.

An item "- `name`: description" of a docstring describes a field of the class and its subclasses.
Reading them when the document is built costs the start of the server nothing.
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, with_config
from pydantic_core import CoreSchema
from typing_extensions import get_original_bases

_ITEM = re.compile(r"^- ((?:`\w+`(?:, )?)+): (.+?)(?=\n\n|\n- |\Z)", re.MULTILINE | re.DOTALL)
_NONE: Mapping[str, str] = MappingProxyType({})
T = TypeVar("T", bound=type)


class DescribedModel(BaseModel):
    """Base class of models whose fields are described."""

    common_fields: ClassVar[Mapping[str, str]] = _NONE
    """Descriptions of fields that the docstring of a class leaves out."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the JSON schema with the descriptions of the fields."""
        return _describe(cls, cls.common_fields, handler(core_schema), handler)


def describe_fields(cls: T, common_fields: Mapping[str, str] = _NONE) -> T:
    """Describe the fields of a TypedDict.

    common_fields: descriptions of fields that its docstring leaves out.
    """

    def json_schema(core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return _describe(cls, common_fields, handler(core_schema), handler)

    cls.__get_pydantic_json_schema__ = json_schema  # type: ignore[attr-defined]
    return cls


def forbid_extra(cls: T, common_fields: Mapping[str, str] = _NONE) -> T:
    """Mark the TypedDict of a JSON object that has no other fields, and describe its fields."""
    return describe_fields(with_config(ConfigDict(extra="forbid"))(cls), common_fields)


def _describe(
    cls: Any,
    common_fields: Mapping[str, str],
    schema: dict[str, Any],
    handler: GetJsonSchemaHandler,
) -> dict[str, Any]:
    resolved = handler.resolve_ref_schema(schema)
    descriptions = {**common_fields, **dict(_descriptions(cls))}
    for name, field in resolved.get("properties", {}).items():
        if name in descriptions:
            field.setdefault("description", descriptions[name])
    if "description" in resolved:
        resolved["description"] = re.sub(r"\n{3,}", "\n\n", _ITEM.sub("", resolved["description"]))
        resolved["description"] = resolved["description"].strip()
    return schema


def _descriptions(cls: Any) -> Iterator[tuple[str, str]]:
    """Yield the fields that docstrings describe, those of the class itself last."""
    for base in reversed(get_original_bases(cls)):
        if isinstance(base, type):
            yield from _descriptions(base)
    for names, text in _ITEM.findall(inspect.cleandoc(vars(cls).get("__doc__") or "")):
        sentence = " ".join(text.split())
        for name in re.findall(r"\w+", names):
            yield name, sentence if sentence[1].isupper() else sentence[0].upper() + sentence[1:]
