"""Fields of several APIs in one body: names of the same field, and fields that exclude others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from embedwell.errors import BadRequest
from embedwell.routes.common.body import Body

T = TypeVar("T")


@dataclass(frozen=True)
class SameAs:
    """Marks another name of a field; a request has only one of the names."""

    field: str


@dataclass(frozen=True)
class Excludes:
    """Marks a field that cannot be combined with others, by any of their names."""

    fields: Sequence[str]


class SharedBody(Body):
    """Body with fields of several APIs, each of which says how it relates to the others."""

    def value(self, field: str, *others: str) -> Any:
        """Return a field's value, by any of its names; raises BadRequest if two of them are set.

        others: further fields that count as names.
        """
        names = *_names(type(self), field), *others
        present = [name for name in names if getattr(self, name, None) is not None]
        if len(present) > 1:
            raise BadRequest(
                f"give either {present[0]} or {present[1]}, not both", param=present[1]
            )
        return getattr(self, present[0]) if present else None

    def check_exclusions(self) -> None:
        """Raise BadRequest if a field is combined with one that it excludes."""
        for field, excluded in _marks(type(self), Excludes).items():
            value = getattr(self, field)
            if value is not None and value is not False:
                self.check_without(field, *excluded.fields)

    def check_without(self, field: str, *excluded: str) -> None:
        """Raise BadRequest if one of the fields, by any of its names, is set next to `field`."""
        for name in [name for each in excluded for name in _names(type(self), each)]:
            if getattr(self, name):
                raise BadRequest(
                    f"{name} cannot be combined with {field}; leave one of them out", param=name
                )


@cache
def _marks(body_type: type[SharedBody], kind: type[T]) -> Mapping[str, T]:
    """Return the fields that have a mark."""
    fields = body_type.model_fields.items()
    return {name: mark for name, f in fields for mark in f.metadata if isinstance(mark, kind)}


@cache
def _names(body_type: type[SharedBody], field: str) -> Sequence[str]:
    """Return the names of a field, its own first."""
    marks = _marks(body_type, SameAs).items()
    return [field, *(name for name, mark in marks if mark.field == field)]
