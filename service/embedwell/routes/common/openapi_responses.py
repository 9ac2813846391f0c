"""OpenAPI descriptions of responses: status codes, headers and error schemas."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter

from embedwell.http.error_responses import (
    NATIVE,
    CohereError,
    Error,
    ErrorFormat,
    OpenAIError,
    VoyageError,
)
from embedwell.routes.common.response_body import BYTES, NPY

_SCHEMA_REFERENCE = "#/components/schemas/{model}"
AUTH_ERRORS = (401, 403, 500)
"""Error statuses of every route that requires a key."""
BODY_ERRORS = (400, 401, 403, 408, 413, 415, 500)
"""Error statuses of a route that reads a body."""
ENGINE_ERRORS = (400, 401, 403, 404, 408, 413, 415, 429, 500, 503, 504)
"""Error statuses of a route that reads a body and uses a model's engine."""
_DESCRIPTIONS: Mapping[int, str] = {
    400: "The request is invalid; the message names the field.",
    401: "The server requires a key, and the request has none or a wrong one.",
    403: (
        "The request is from a web page of another origin, or for a host name that is not allowed."
    ),
    404: "The server has no model of this name.",
    408: "The request did not arrive in time. The connection is closed.",
    413: "The request exceeds a limit; the limits are in /info.",
    415: "The content type or encoding is not supported.",
    429: "The server has too much work, or too little memory, now; the message says which.",
    500: "The model fails on an input, or an internal error occurred.",
    503: "The engine is not ready, or the server shuts down.",
    504: "The response took too long.",
    507: "The server's disk is full.",
}
_ERROR_SCHEMAS = (Error, OpenAIError, CohereError, VoyageError)
_Header = tuple[str, Mapping[str, Any]]
"""A sentence about a header, and the schema of its value."""
_NUMBER = {"type": "integer", "minimum": 0}
_BINARY_HEADERS: Mapping[str, _Header] = {
    "x-shape": ("Shape of the array, its numbers separated by commas.", {"type": "string"}),
    "x-dtype": ("Type of the array's numbers, such as `float32`.", {"type": "string"}),
    "x-lengths": (
        "Number of vectors of each text, separated by commas, if a text has several.",
        {"type": "string"},
    ),
}

OpenAPIObject = dict[str, Any]
_HEADERS: Mapping[str, _Header] = {
    "x-request-id": (
        "Id of the request: its own, the trace id of its `traceparent`, or a new one.",
        {"type": "string", "pattern": r"^[A-Za-z0-9_.:/+=@\-]{1,128}$"},
    ),
    "x-tokens": ("Number of tokens of all inputs.", _NUMBER),
    "x-truncated": ("Number of inputs that were cut to the model's maximum length.", _NUMBER),
    "x-cached": ("Number of vectors that were in the cache.", _NUMBER),
    "x-tokenize-us": ("Microseconds of tokenization.", _NUMBER),
    "x-queue-us": ("Microseconds that the request waited until its first batch.", _NUMBER),
    "x-compute-us": ("Microseconds that the engine computed.", _NUMBER),
    "x-total-us": ("Microseconds from the headers of the request to the response.", _NUMBER),
    "x-tokenization-time": ("TEI's name of `x-tokenize-us`, in milliseconds.", _NUMBER),
    "x-queue-time": ("TEI's name of `x-queue-us`, in milliseconds.", _NUMBER),
    "x-inference-time": ("TEI's name of `x-compute-us`, in milliseconds.", _NUMBER),
    "x-total-time": ("TEI's name of `x-total-us`, in milliseconds.", _NUMBER),
}

_RETRY_AFTER: _Header = (
    "Seconds after which a retry may succeed.",
    {"type": "integer", "minimum": 1},
)
_STATUS_HEADERS: Mapping[int, Mapping[str, _Header]] = {
    401: {
        "www-authenticate": (
            "How to send the key: `Authorization: Bearer KEY`.",
            {"const": "Bearer", "type": "string"},
        )
    },
    408: {
        "connection": ("The server closes the connection.", {"const": "close", "type": "string"})
    },
    **{status: {"retry-after": _RETRY_AFTER} for status in (429, 503, 504)},
}

_OPTIONAL_STATUS_HEADERS: Mapping[int, Mapping[str, _Header]] = {
    415: {
        "accept": ("Content types that the route reads.", {"type": "string"}),
        "accept-encoding": ("Encodings of a body that the route reads.", {"type": "string"}),
    },
    500: {
        "x-should-retry": (
            "A retry would fail, too; clients of OpenAI obey this.",
            {"const": "false", "type": "string"},
        )
    },
}

_ERROR_HEADERS = [*_STATUS_HEADERS.values(), *_OPTIONAL_STATUS_HEADERS.values()]
EXPOSED_HEADERS = (
    *(*_HEADERS, *_BINARY_HEADERS, "allow"),
    *sorted({name for headers in _ERROR_HEADERS for name in headers} - {"connection"}),
)
"""Response headers that scripts of other origins can read."""


def route_responses(
    errors: Sequence[int] = ENGINE_ERRORS,
    error_format: ErrorFormat = NATIVE,
    binary: bool = False,
) -> dict[int | str, OpenAPIObject]:
    """Build the `responses` of a route: the headers of a success, and its error statuses.

    binary: whether the route can also respond with the bytes of an array.
    """
    headers = {**_header_references(), **(_optional_headers(_BINARY_HEADERS) if binary else {})}
    octets = {"schema": {"type": "string", "format": "binary"}}
    success = {
        "description": "Success.",
        "headers": headers,
        "content": {media_type.decode(): octets for media_type in (BYTES, NPY) if binary},
    }
    return {200: success, **{status: _error_reference(error_format, status) for status in errors}}


def components() -> OpenAPIObject:
    """Build the components to which the responses of routes refer."""
    schemas: list[Any] = [(name, "serialization", TypeAdapter(name)) for name in _ERROR_SCHEMAS]
    _, definitions = TypeAdapter.json_schemas(schemas, ref_template=_SCHEMA_REFERENCE)
    return {
        "responses": {
            f"{schema.__name__}{status}": _error_response(schema, status)
            for schema in _ERROR_SCHEMAS
            for status in _DESCRIPTIONS
        },
        "headers": _required_headers(_HEADERS),
        "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        "schemas": definitions["$defs"],
    }


def _error_response(error_schema: Any, status: int) -> OpenAPIObject:
    required = _required_headers(_STATUS_HEADERS.get(status, {}))
    optional = _optional_headers(_OPTIONAL_STATUS_HEADERS.get(status, {}))
    reference = _schema_reference(error_schema)
    if error_schema is VoyageError:  # until the body is read, the format is OpenAI's
        reference = {"anyOf": [reference, _schema_reference(OpenAIError)]}
    return {
        "description": _DESCRIPTIONS[status],
        "headers": {**_header_references(), **required, **optional},
        "content": {"application/json": {"schema": reference}},
    }


def _schema_reference(schema: Any) -> OpenAPIObject:
    return {"$ref": _SCHEMA_REFERENCE.format(model=schema.__name__)}


def _error_reference(error_format: ErrorFormat, status: int) -> OpenAPIObject:
    reference = f"#/components/responses/{error_format.schema.__name__}{status}"
    return {"$ref": reference, "description": _DESCRIPTIONS[status]}


def _header_references() -> OpenAPIObject:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in _HEADERS}


def _required_headers(headers: Mapping[str, _Header]) -> OpenAPIObject:
    described = _optional_headers(headers)
    return {name: {"required": True, **header} for name, header in described.items()}


def _optional_headers(headers: Mapping[str, _Header]) -> OpenAPIObject:
    return {
        name: {"description": text, "schema": schema} for name, (text, schema) in headers.items()
    }
