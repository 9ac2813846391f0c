"""JSON bodies of errors, in the format that clients of a path expect."""

from collections.abc import Callable
from typing import Any

import orjson
from fastapi import Response

from embedwell.errors import Overloaded, ServiceError

_MAX_MESSAGE = 1000  # characters

Content = dict[str, Any]


def respond(error: ServiceError, request_id: str, path: str = "") -> Response:
    """Build the response of an error.

    path: path of the request without a gateway's prefix; "" if unknown.
    """
    content = {**describe(error), "request_id": request_id}
    body = orjson.dumps(_envelope(path)(error, content))
    return Response(body, error.status, error.headers, media_type="application/json")


def describe(error: ServiceError) -> Content:
    """Describe the error of a request, or of one of its inputs, as JSON."""
    return {
        "message": _truncate(error.message),
        "type": _type(error.status),
        "param": error.param and _truncate(error.param),
        "code": error.code,
        "index": error.index,
    }


def _native(error: ServiceError, content: Content) -> Content:
    """Format for all other paths, and clients of TEI and Ollama: the message as a string."""
    rest = {name: content[name] for name in ("code", "param", "index", "request_id")}
    return {"error": content["message"], "error_type": _error_type(error), **rest}


def _openai(error: ServiceError, content: Content) -> Content:
    """OpenAI's format, with the message also in `detail` for Voyage's client."""
    return {"error": content, "detail": content["message"]}


def _cohere(error: ServiceError, content: Content) -> Content:
    """Cohere's format: id and message at the top level."""
    rest = {name: content[name] for name in ("code", "param", "index")}
    return {"id": content["request_id"], "message": content["message"], **rest}


def _envelope(path: str) -> Callable[[ServiceError, Content], Content]:
    if path == "/v1/embed" or path.startswith("/v2/"):
        return _cohere
    if path.startswith("/v1/") or path in {"/embeddings", "/models"}:
        return _openai
    return _native


def _type(status: int) -> str:
    """Return OpenAI's error type for a status."""
    if status == Overloaded.status:
        return "rate_limit_error"
    return "invalid_request_error" if status < 500 else "server_error"


def _error_type(error: ServiceError) -> str:
    """Return TEI's error type for a status."""
    if error.code == "no_input":
        return "Empty"
    if error.status == 503:
        return "Unhealthy"
    words = {"rate_limit_error": "Overloaded", "server_error": "Backend"}
    return words.get(_type(error.status), "Validation")


def _truncate(text: str) -> str:
    # Messages can quote long inputs.
    return text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}…"
