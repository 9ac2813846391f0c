"""Convert exceptions to the errors that clients receive."""

import errno
from collections.abc import Collection, Sequence
from difflib import get_close_matches

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from embedwell.errors import (
    BadRequest,
    DiskFull,
    InternalError,
    Path,
    ServiceError,
    describe_path,
)

UNEXPECTED = "an unexpected error occurred; the operator can find it in the server's log"
"""Message of an internal error."""


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


_COMPARED = 100  # characters of an unknown field


def invalid_body(error: ValidationError, fields: Collection[str]) -> BadRequest:
    """Convert the error of an invalid body. fields: those that the body can have."""
    problems = _problems(error)
    described = _invalid(problems)
    unknown = next(filter(_unknown, problems), None)
    if unknown is not None and len(unknown["loc"]) == 1:
        similar = get_close_matches(str(unknown["loc"][0])[:_COMPARED], fields, n=1)
        question = "".join(f"did you mean {name!r}? " for name in similar)
        described.message += f"; {question}the fields are {', '.join(fields)}"
    return described


def _problems(error: ValidationError) -> Sequence[ErrorDetails]:
    return error.errors(include_url=False, include_context=False, include_input=False)


def _invalid(problems: Sequence[ErrorDetails]) -> BadRequest:
    """Describe the first problem of an invalid request, with its field and input index."""
    # A misspelt field is reported before the missing field that it was meant to be.
    first = next(filter(_unknown, problems), problems[0])
    location, param, index = describe_path(_path(first))
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


def _message(problem: ErrorDetails) -> str:
    branch = problem["loc"][-1] if problem["loc"] else ""
    if problem["type"] == "list_type" and branch in _LISTS:
        return f"Input should be {_LISTS[branch]}"
    if problem["type"] == "bool_type":
        return "Input should be true or false"
    return str(problem["msg"]).removeprefix("Value error, ")
