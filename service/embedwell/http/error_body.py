"""JSON bodies of errors, in the format that clients of a path expect."""

from collections.abc import Callable
from typing import Literal, NotRequired

import orjson
from fastapi import Response
from pydantic import ConfigDict, NonNegativeInt, with_config
from typing_extensions import TypedDict

from embedwell.errors import Overloaded, ServiceError, Unauthorized

_MAX_MESSAGE = 1000  # characters

OpenAIErrorType = Literal["invalid_request_error", "rate_limit_error", "server_error"]
TEIErrorType = Literal["Validation", "Empty", "Overloaded", "Unhealthy", "Backend"]

forbid_extra = with_config(ConfigDict(extra="forbid"))
"""Marks the type of a JSON object that has no other fields, in the OpenAPI document, too."""


@forbid_extra
class Fault(TypedDict):
    """An error.

    - `code`: a stable identifier for programs.
    - `param`, `index`: the field and the input that caused the error.
    """

    message: str
    type: OpenAIErrorType
    param: str | None
    code: str
    index: NonNegativeInt | None


@forbid_extra
class FaultWithRequestId(Fault):
    """An error with the id of its request."""

    request_id: str


@forbid_extra
class Error(TypedDict):
    """An error in the format for TEI's and Ollama's clients.

    - `error`: the message.
    - `error_type`: TEI's category.
    - `status`: the message again, for Ollama's Go client, if the key is missing or wrong.
    """

    error: str
    error_type: TEIErrorType
    code: str
    param: str | None
    index: NonNegativeInt | None
    request_id: str
    status: NotRequired[str]


@forbid_extra
class OpenAIError(TypedDict):
    """An error in OpenAI's format.

    - `message`: the message again, for clients of Cohere and Mistral.
    - `detail`: the message again, for Voyage's client.
    """

    error: FaultWithRequestId
    message: str
    detail: str


@forbid_extra
class CohereError(TypedDict):
    """An error in Cohere's format.

    - `id`: the request's id.
    """

    id: str
    message: str
    code: str
    param: str | None
    index: NonNegativeInt | None


def respond(error: ServiceError, request_id: str, path: str = "") -> Response:
    """Build the response of an error.

    path: path of the request without a gateway's prefix; "" if unknown.
    """
    body = orjson.dumps(_format(path)(error, {**describe(error), "request_id": request_id}))
    return Response(body, error.status, error.headers, media_type="application/json")


def describe(error: ServiceError) -> Fault:
    """Describe the error of a request, or of one of its inputs, as JSON."""
    return {
        "message": _truncate(error.message),
        "type": _type(error.status),
        "param": error.param and _truncate(error.param),
        "code": error.code,
        "index": error.index,
    }


def _native(error: ServiceError, content: FaultWithRequestId) -> Error:
    """Format for all other paths, and clients of TEI and Ollama: the message as a string."""
    return {
        "error": content["message"],
        "error_type": _error_type(error),
        "code": content["code"],
        "param": content["param"],
        "index": content["index"],
        "request_id": content["request_id"],
    }


def _ollama(error: ServiceError, content: FaultWithRequestId) -> Error:
    """Like the format for all other paths, with the only field that Ollama reads of a 401."""
    body = _native(error, content)
    return {**body, "status": body["error"]} if error.status == Unauthorized.status else body


def _openai(error: ServiceError, content: FaultWithRequestId) -> OpenAIError:
    """OpenAI's format, with the message also where other vendors' clients read it."""
    message = content["message"]
    return {"error": content, "message": message, "detail": message}


def _cohere(error: ServiceError, content: FaultWithRequestId) -> CohereError:
    """Cohere's format: id and message at the top level."""
    return {
        "id": content["request_id"],
        "message": content["message"],
        "code": content["code"],
        "param": content["param"],
        "index": content["index"],
    }


def _format(
    path: str,
) -> Callable[[ServiceError, FaultWithRequestId], Error | OpenAIError | CohereError]:
    if path == "/v1/embed" or path.startswith("/v2/"):
        return _cohere
    if path.startswith(("/v1/", "/openai/")) or path in {"/embeddings", "/models"}:
        return _openai
    return _ollama if path.startswith("/api/") else _native


def _type(status: int) -> OpenAIErrorType:
    """Return OpenAI's error type for a status."""
    if status == Overloaded.status:
        return "rate_limit_error"
    return "invalid_request_error" if status < 500 else "server_error"


def _error_type(error: ServiceError) -> TEIErrorType:
    """Return TEI's error type for a status."""
    if error.code == "no_input":
        return "Empty"
    if error.status == 503:
        return "Unhealthy"
    words: dict[OpenAIErrorType, TEIErrorType] = {
        "rate_limit_error": "Overloaded",
        "server_error": "Backend",
    }
    return words.get(_type(error.status), "Validation")


def _truncate(text: str) -> str:
    # Messages can quote long inputs.
    return text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}…"
