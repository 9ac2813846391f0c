"""An error as an answer, in its one JSON shape."""

from collections.abc import Callable
from typing import Any

import orjson
from fastapi import Response

from service.errors import Overloaded, ServiceError

_LONGEST = 1000  # characters of a message

Envelope = Callable[[dict[str, Any]], dict[str, Any]]
"""What a route makes of an error's content."""


def plain(content: dict[str, Any]) -> dict[str, Any]:
    """The one shape of errors, which is OpenAI's."""
    return {"error": content}


def respond(error: ServiceError, request_id: str, envelope: Envelope = plain) -> Response:
    """The response of an error, with the input's index and the request id."""
    content = {**describe(error), "request_id": request_id}
    body = orjson.dumps(envelope(content))
    return Response(body, error.status, error.headers, media_type="application/json")


def describe(error: ServiceError) -> dict[str, Any]:
    """An error as JSON, of a request or of one of its inputs."""
    return {
        "message": _short(error.message),
        "type": _type(error.status),
        "param": error.param and _short(error.param),
        "code": error.code,
        "index": error.index,
    }


def _type(status: int) -> str:
    """OpenAI's word for what it is: wrong, too much for now, or the server's fault."""
    if status == Overloaded.status:
        return "rate_limit_error"
    return "invalid_request_error" if status < 500 else "server_error"


def _short(text: str) -> str:
    # What a client sent need not come back whole.
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
