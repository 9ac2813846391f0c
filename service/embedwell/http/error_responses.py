"""Errors as clients receive them: from the exception to JSON in the format of an API."""

import errno
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, NotRequired, get_args

import orjson
from fastapi import Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, NonNegativeInt, Tag, ValidationError
from pydantic_core import ErrorDetails
from typing_extensions import TypedDict

from embedwell.errors import (
    BadRequest,
    DiskFull,
    InternalError,
    Overloaded,
    Path,
    ServiceError,
    Unauthorized,
    describe_path,
)
from embedwell.http.field_descriptions import forbid_extra

UNEXPECTED = "an unexpected error occurred; the operator can find it in the server's log"
"""Message of an internal error."""
_COMPARED = 100  # characters of an unknown field
_MAX_MESSAGE = 1000  # characters

OpenAIErrorType = Literal[
    "invalid_request_error", "rate_limit_error", "server_error", "BadRequestError"
]
TEIErrorType = Literal["Validation", "Empty", "Overloaded", "Unhealthy", "Backend"]


def to_service_error(error: BaseException) -> ServiceError:
    """Convert an exception to the error that a client receives."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, ValidationError):
        return _invalid(_problems(error))
    if isinstance(error, RequestValidationError):  # FastAPI puts "body" or "query" before the path
        return _invalid([each | {"loc": each["loc"][1:]} for each in error.errors()])
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull("the server's disk is full; delete files, or ask the operator for room")
    return InternalError(UNEXPECTED)


def invalid_body(
    error: ValidationError, body_type: type[BaseModel], input_fields: Collection[str]
) -> BadRequest:
    """Convert the error of an invalid body; that of an unknown field says which ones there are.

    input_fields: fields that have one entry for each input.
    """
    problems = _problems(error)
    described = _invalid(problems, input_fields)
    if (unknown := next(filter(_unknown, problems), None)) is None:
        return described
    *path, name = unknown["loc"]
    if fields := _fields(body_type, tuple(path)):
        _name_fields(described, str(name), fields)
    return described


def _name_fields(unknown: BadRequest, name: str, fields: Sequence[str]) -> None:
    """Add to the error of an unknown field the one that is similar, or else all."""
    if similar := get_close_matches(name[:_COMPARED], fields, n=1):
        unknown.message += f"; did you mean {similar[0]!r}? GET /docs describes all fields"
        return
    unknown.brief = f"{unknown.message}; error.message lists the fields"
    unknown.message += f"; the fields are {', '.join(fields)}"


def _fields(part: Any, path: Path) -> list[str]:
    """Return the fields of an object in a body, the required ones first; [] for one in a list.

    part: type of the body, or of a part of it.
    path: fields, and tags of a union's branches, from there to the object.
    """
    if isinstance(part, type) and issubclass(part, BaseModel):
        fields = part.model_fields
        if path:
            field = fields.get(str(path[0]))
            return _fields(field.annotation, path[1:]) if field else []
        required_first = sorted(fields.items(), key=lambda item: not item[1].is_required())
        return [field.alias or name for name, field in required_first]
    tag = next((each.tag for each in get_args(part) if isinstance(each, Tag)), None)
    if tag is not None:
        return _fields(get_args(part)[0], path[1:]) if (tag,) == path[:1] else []
    return [field for each in get_args(part) for field in _fields(each, path)]


def _problems(error: ValidationError) -> Sequence[ErrorDetails]:
    return error.errors(include_url=False, include_input=False)


def _invalid(problems: Sequence[ErrorDetails], input_fields: Collection[str] = ()) -> BadRequest:
    """Describe the first problem of an invalid request, with its field and input index."""
    # A misspelt field is reported before the missing field that it was meant to be.
    first = next(filter(_unknown, problems), problems[0])
    location, param, index = describe_path(_path(first))
    index = index if param in input_fields else None
    if _unknown(first):
        return BadRequest(f"unknown field {location!r}", code="unknown_field", param=location)
    if first["type"] == "none_required":  # the error of a field that must be null
        message = f"{location} is not supported; leave it out"
        return BadRequest(message, code="not_offered", param=location)
    message = _message(first)
    if first["loc"][1:2] == ("<ids>",):  # the single input is token ids; location has the position
        index = 0
    if first["type"] == "string_type" and index is not None:
        message = "Input should be a text"
    if first["type"] == "int_type" and "<ids>" in first["loc"]:
        message = "Input should be a token id, a number"
    return BadRequest(f"{location}: {message}" if location else message, param=param, index=index)


def _unknown(problem: ErrorDetails) -> bool:
    return bool(problem["type"] == "extra_forbidden")


def _path(problem: ErrorDetails) -> Path:
    # Leave out names of a union's branches, such as <texts>, which are not part of a request.
    # The last part is kept for an unknown field, even if it looks like such a name.
    unknown = len(problem["loc"]) - _unknown(problem)
    parts = enumerate(problem["loc"])
    return tuple(part for i, part in parts if i == unknown or not str(part).startswith("<"))


_LISTS = {
    "<batch>": "a text, its token ids, or a list of either",
    "<texts>": "a text or a list of texts",
    "<rows>": "token ids or a list of them",
    "<side>": "a text, a list of texts, or a list of vectors",
}
"""Maps the name of a union's branch for lists to the values that the union accepts."""


_OTHER_MEDIA = (
    ": videos and sounds are not read; send a video's frames as images, or use "
    "sentence-transformers"
)


def _message(problem: ErrorDetails) -> str:
    branch = problem["loc"][-1] if problem["loc"] else ""
    if problem["type"] == "list_type" and branch in _LISTS:
        return f"Input should be {_LISTS[branch]}"
    if problem["type"] == "union_tag_invalid":
        context = problem["ctx"]
        field, known = context["discriminator"], context["expected_tags"]
        tag = context["tag"]
        is_other = "image" in known and any(medium in tag for medium in ("audio", "video"))
        return f"{field} should be one of {known}, not {tag!r}{_OTHER_MEDIA * is_other}"
    if problem["type"] == "union_tag_not_found":
        return f"the field {problem['ctx']['discriminator']} is missing"
    if problem["type"] == "bool_type":
        return "Input should be true or false"
    if problem["type"] == "list_type":
        return "Input should be a list"
    return str(problem["msg"]).removeprefix("Value error, ").partition(", unable to parse")[0]


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
