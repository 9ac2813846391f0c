"""The responses of routes, of every status, for the OpenAPI document."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter

from service.api.array_format import BYTES, NPY
from service.api.schemas.common import CohereError, Error, OpenAIError

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
_ERRORS = (Error, OpenAIError, CohereError)
_OF_BYTES = {"x-shape": {"type": "string"}, "x-dtype": {"type": "string"}}
TELLING = (*_HEADERS, *_OF_BYTES, "retry-after", "x-should-retry")
"""The headers that tell a client what the body does not."""


def documented(
    errors: Sequence[int] = ENGINE, error: Any = Error, raw: bool = False
) -> dict[int | str, Described]:
    """The `responses` of a route: the headers of its own one, and its errors.

    errors: their statuses. error: their shape. raw: whether a response can be bytes alone.
    """
    headers = {**_always(), **(_optional(_OF_BYTES) if raw else {})}
    octets = {"schema": {"type": "string", "format": "binary"}}
    good = {
        "description": "What was asked for.",
        "headers": headers,
        "content": {media.decode(): octets for media in (BYTES, NPY) if raw},
    }
    return {200: good, **{status: _reference(error, status) for status in errors}}


def components() -> Described:
    """What the responses of routes refer to, and the schemas that those refer to."""
    shapes: list[Any] = [(name, "serialization", TypeAdapter(name)) for name in _ERRORS]
    _, definitions = TypeAdapter.json_schemas(shapes, ref_template=REFERENCE)
    return {
        "responses": {
            f"{shape.__name__}{status}": _error(shape, status)
            for shape in _ERRORS
            for status in _MEANINGS
        },
        "headers": {name: {"required": True, "schema": kind} for name, kind in _HEADERS.items()},
        "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        "schemas": definitions["$defs"],
    }


def _error(shape: Any, status: int) -> Described:
    required = {
        name: {"required": True, "schema": schema}
        for name, schema in _FURTHER.get(status, {}).items()
    }
    reference = {"$ref": REFERENCE.format(model=shape.__name__)}
    return {
        "description": _MEANINGS[status],
        "headers": {**_always(), **required, **_optional(_SOMETIMES.get(status, {}))},
        "content": {"application/json": {"schema": reference}},
    }


def _reference(shape: Any, status: int) -> Described:
    reference = f"#/components/responses/{shape.__name__}{status}"
    return {"$ref": reference, "description": _MEANINGS[status]}


def _always() -> Described:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in _HEADERS}


def _optional(headers: Mapping[str, Described]) -> Described:
    return {name: {"schema": schema} for name, schema in headers.items()}
