"""Errors as clients receive them: from the exception to JSON in the format of an API."""

import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NotRequired

import orjson
from fastapi import Response
from fastapi.exceptions import RequestValidationError
from pydantic import NonNegativeInt, ValidationError
from typing_extensions import TypedDict

from embedwell.errors import (
    BadRequest,
    DiskFull,
    InternalError,
    Overloaded,
    ServiceError,
    Unauthorized,
)
from embedwell.http.field_descriptions import forbid_extra

UNEXPECTED = "an unexpected error occurred; the operator can find it in the server's log"
"""Message of an internal error."""
_MAX_MESSAGE = 1000  # characters

OpenAIErrorType = Literal[
    "invalid_request_error", "rate_limit_error", "server_error", "BadRequestError"
]
TEIErrorType = Literal["Validation", "Empty", "Overloaded", "Unhealthy", "Backend"]


def to_service_error(error: BaseException) -> ServiceError:
    """Convert an exception to the error that a client receives."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, ValidationError | RequestValidationError):
        from embedwell.http.validation_errors import describe_problems, problems_of

        if isinstance(error, ValidationError):
            return describe_problems(problems_of(error))
        # FastAPI puts "body" or "query" before the path.
        return describe_problems([each | {"loc": each["loc"][1:]} for each in error.errors()])
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull("the server's disk is full; delete files, or ask the operator for room")
    return InternalError(UNEXPECTED)


@forbid_extra
class Fault(TypedDict):
    """An error.

    - `code`: a stable identifier of the error, for programs.
    - `param`: the field that caused the error; null if there is none.
    - `index`: position of the input that caused the error, from 0; null if there is none.
    - `message`: what is wrong, and what to do.
    - `type`: OpenAI's category of the error; at /pooling, vLLM's `BadRequestError` for a 400.
    """

    message: str
    type: OpenAIErrorType
    param: str | None
    code: str
    index: NonNegativeInt | None


@forbid_extra
class FaultWithRequestId(Fault):
    """An error with the id of its request.

    - `request_id`: the request's id, which the header `x-request-id` has, too.
    """

    request_id: str


@forbid_extra
class Error(TypedDict):
    """An error in the format for TEI's and Ollama's clients.

    - `error`: what is wrong, and what to do.
    - `error_type`: TEI's category.
    - `status`: the message again, for Ollama's Go client, if the key is missing or wrong.
    - `code`: a stable identifier of the error, for programs.
    - `param`: the field that caused the error; null if there is none.
    - `index`: position of the input that caused the error, from 0; null if there is none.
    - `request_id`: the request's id, which the header `x-request-id` has, too.
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

    - `error`: the error, with its message, code and field.
    - `message`: the message without a list of fields, for clients of Cohere, Mistral and TEI.
    - `detail`: the same, for Voyage's clients.
    - `type`: TEI's category of the error.
    - `code`: the response's status, such as 400.
    """

    error: FaultWithRequestId
    message: str
    detail: str
    type: TEIErrorType
    code: int


@forbid_extra
class VoyageError(TypedDict):
    """An error in Voyage's format, for a request with fields that only Voyage's clients send.

    Those before version 0.5 fail on an error that has an object `error`.

    - `detail`: what is wrong, and what to do.
    - `code`: a stable identifier of the error, for programs.
    - `param`: the field that caused the error; null if there is none.
    - `index`: position of the input that caused the error, from 0; null if there is none.
    - `request_id`: the request's id, which the header `x-request-id` has, too.
    """

    detail: str
    code: str
    param: str | None
    index: NonNegativeInt | None
    request_id: str


@forbid_extra
class CohereError(TypedDict):
    """An error in Cohere's format.

    - `id`: the request's id.
    - `message`: what is wrong, and what to do.
    - `code`: a stable identifier of the error, for programs.
    - `param`: the field that caused the error; null if there is none.
    - `index`: position of the input that caused the error, from 0; null if there is none.
    """

    id: str
    message: str
    code: str
    param: str | None
    index: NonNegativeInt | None


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
    """This server's own format, which clients of TEI and Ollama read: the message as a string."""
    return {
        "error": content["message"],
        "error_type": _error_type(error),
        "code": content["code"],
        "param": content["param"],
        "index": content["index"],
        "request_id": content["request_id"],
    }


def _ollama(error: ServiceError, content: FaultWithRequestId) -> Error:
    """Like this server's own format, with the only field that Ollama reads of a 401."""
    body = _native(error, content)
    return {**body, "status": body["error"]} if error.status == Unauthorized.status else body


def _openai(error: ServiceError, content: FaultWithRequestId) -> OpenAIError:
    """OpenAI's format, with the message also where other vendors' clients read it."""
    message = _truncate(error.brief or error.message)
    return {
        "error": content,
        "message": message,
        "detail": message,
        "type": _error_type(error),
        "code": error.status,
    }


def _vllm(error: ServiceError, content: FaultWithRequestId) -> OpenAIError:
    """Like OpenAI's format, with the name that vLLM gives to an invalid request."""
    is_invalid = error.status == BadRequest.status
    return _openai(error, {**content, "type": "BadRequestError"} if is_invalid else content)


def _voyage(_error: ServiceError, content: FaultWithRequestId) -> VoyageError:
    """Voyage's format: the message as a string."""
    return {
        "detail": content["message"],
        "code": content["code"],
        "param": content["param"],
        "index": content["index"],
        "request_id": content["request_id"],
    }


def _cohere(error: ServiceError, content: FaultWithRequestId) -> CohereError:
    """Cohere's format: id and message at the top level."""
    return {
        "id": content["request_id"],
        "message": content["message"],
        "code": content["code"],
        "param": content["param"],
        "index": content["index"],
    }


AnyError = Error | OpenAIError | VoyageError | CohereError
"""An error in the format of an API."""


@dataclass(frozen=True)
class ErrorFormat:
    """Format of the errors of an API.

    schema: its type in the OpenAPI document. build: builds an error in the format.
    for_voyage: format for requests to its paths that only Voyage's clients send, if that differs.
    """

    schema: Any
    build: Callable[[ServiceError, FaultWithRequestId], AnyError]
    for_voyage: "ErrorFormat | None" = None

    def for_client(self, user_agent: bytes) -> "ErrorFormat":
        """Return the format for a client with a header user-agent, or b"" without one."""
        is_voyage = user_agent.startswith(_VOYAGE_AGENT)
        return self.for_voyage or self if is_voyage else self


_VOYAGE_AGENT = b"Voyage/"  # of Voyage's Python client
_VOYAGE_CLIENT = ErrorFormat(VoyageError, _voyage)
NATIVE = ErrorFormat(Error, _native)
OLLAMA = ErrorFormat(Error, _ollama)
OPENAI = ErrorFormat(OpenAIError, _openai, _VOYAGE_CLIENT)
VOYAGE = ErrorFormat(VoyageError, _openai, _VOYAGE_CLIENT)
"""OpenAI's format at the paths of Voyage's API."""
VLLM = ErrorFormat(OpenAIError, _vllm)
COHERE = ErrorFormat(CohereError, _cohere)


def respond(
    error: ServiceError,
    request_id: str,
    error_format: ErrorFormat = NATIVE,
    user_agent: bytes = b"",
) -> Response:
    """Build the response of an error. user_agent: the client's header."""
    content: FaultWithRequestId = {**describe(error), "request_id": request_id}
    body = orjson.dumps(error_format.for_client(user_agent).build(error, content))
    return Response(body, error.status, error.headers, media_type="application/json")


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
