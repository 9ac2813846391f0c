"""What an operation can answer, of every status: its part of the OpenAPI document."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from service.api.output import BYTES, NPY
from service.api.shapes.common import CohereError, Error, OpenAIError

Described = dict[str, Any]

REFERENCE = "#/components/schemas/{model}"

PLAIN = (401, 403, 500)
"""Errors of whatever needs the key."""
BODY = (400, 401, 403, 408, 413, 415, 500)
"""Errors of what reads a body."""
ENGINE = (400, 401, 403, 408, 413, 415, 429, 500, 503, 504)
"""Errors of what reads a body and asks the engine."""

_MEANINGS: Mapping[int, str] = {
    400: "The request is wrong; the message says where.",
    401: "The server has a key, and the request has another or none.",
    403: "A page elsewhere made a browser ask, or for a host that is not served.",
    404: "The server has no such model.",
    408: "The request did not come in time. The connection is closed.",
    413: "The request is beyond a limit; the limits are in /info.",
    415: "The body's type or encoding is not read.",
    429: "The queue is too long.",
    500: "The model fails on an input, or nobody expected this.",
    503: "The engine is not ready, or the server stops.",
    504: "The answer took too long.",
}
_HEADERS: Mapping[str, Described] = {
    "x-request-id": {"type": "string", "pattern": r"^[A-Za-z0-9_.:/+=@\-]{1,128}$"},
    **{
        f"x-{name}": {"type": "integer", "minimum": 0}
        for name in (
            "tokens",
            "truncated",
            "cached",
            "tokenize-us",
            "queue-us",
            "compute-us",
            "total-us",
            "tokenization-time",
            "queue-time",
            "inference-time",
            "total-time",
        )
    },
}
_FURTHER: Mapping[int, Mapping[str, Described]] = {
    401: {"www-authenticate": {"const": "Bearer", "type": "string"}},
    408: {"connection": {"const": "close", "type": "string"}},
    **{status: {"retry-after": {"type": "integer", "minimum": 1}} for status in (429, 503, 504)},
}
_SOMETIMES: Mapping[int, Mapping[str, Described]] = {
    415: {"accept": {"type": "string"}, "accept-encoding": {"type": "string"}},
    500: {"x-should-retry": {"const": "false", "type": "string"}},
}
_OF_BYTES = {"x-shape": {"type": "string"}, "x-dtype": {"type": "string"}}
TELLING = (*_HEADERS, *_OF_BYTES, "retry-after", "x-should-retry")
"""The headers that tell a client what the body does not."""


@dataclass(frozen=True)
class Responses:
    """shape: the type of an answer in JSON; None for plain text. errors: their statuses.

    error: their shape. raw: whether an answer can be bytes alone.
    """

    shape: Any
    errors: Sequence[int] = ENGINE
    error: Any = Error
    raw: bool = False

    def describe(self) -> Described:
        """Responses and security, with the definitions of the schemas inside."""
        errors = {str(status): _reference(self.error, status) for status in self.errors}
        return {
            "security": [{}, {"key": []}] if 401 in self.errors else [],
            "responses": {"200": self._good(), **errors},
        }

    def _good(self) -> Described:
        json = {"application/json": {"schema": schema(self.shape)}}
        content = json if self.shape else {"text/plain": {"schema": {"type": "string"}}}
        if self.raw:
            octets = {"schema": {"type": "string", "format": "binary"}}
            content |= {media.decode(): octets for media in (BYTES, NPY)}
        headers = {**_always(), **(_optional(_OF_BYTES) if self.raw else {})}
        return {"description": "What was asked for.", "headers": headers, "content": content}


def schema(shape: Any) -> Described:
    """The schema of a type; its definitions are in $defs."""
    return TypeAdapter(shape).json_schema(ref_template=REFERENCE)


def components() -> Described:
    """What the operations refer to."""
    return {
        "responses": dict(_errors()),
        "headers": {name: {"required": True, "schema": told} for name, told in _HEADERS.items()},
        "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
    }


def _errors() -> Iterator[tuple[str, Described]]:
    for shape in (Error, OpenAIError, CohereError):
        for status, meaning in _MEANINGS.items():
            further = {
                name: {"required": True, "schema": told}
                for name, told in _FURTHER.get(status, {}).items()
            }
            sometimes = _optional(_SOMETIMES.get(status, {}))
            yield (
                f"{shape.__name__}{status}",
                {
                    "description": meaning,
                    "headers": {**_always(), **further, **sometimes},
                    "content": {"application/json": {"schema": schema(shape)}},
                },
            )


def _reference(shape: Any, status: int) -> Described:
    return {"$ref": f"#/components/responses/{shape.__name__}{status}"}


def _always() -> Described:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in _HEADERS}


def _optional(headers: Mapping[str, Described]) -> Described:
    return {name: {"schema": told} for name, told in headers.items()}
