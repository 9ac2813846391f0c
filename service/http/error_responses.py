"""What clients are told of whatever was raised, a body that is wrong among it."""

from collections.abc import Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from service.errors import BadRequest, Path, ServiceError, Unexpected, place


def service_error(error: BaseException) -> ServiceError:
    """What clients are told of an error."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, ValidationError):
        return _explain(error.errors(include_url=False, include_context=False, include_input=False))
    if isinstance(error, RequestValidationError):  # which puts "body" or "query" before the path
        return _explain([{**problem, "loc": problem["loc"][1:]} for problem in error.errors()])
    return Unexpected("an unexpected error; see the server's log")


def _explain(problems: Sequence[Any]) -> BadRequest:
    """The first problem of an invalid request, naming the field and the index of the input."""
    # A misspelt field is told before the one that is missed because of it.
    first = next(filter(_unknown, problems), problems[0])
    where, param, index = place(_path(first))
    if _unknown(first):
        return BadRequest(f"unknown field {where!r}", code="unknown_field", param=where)
    if first["type"] == "none_required":  # of a field that may only be null
        told = f"{where} is not offered here; leave it out"
        return BadRequest(told, code="not_offered", param=where)
    message = _plainer(first)
    if first["loc"][1:2] == ("<ids>",):  # the one input is token ids; which of them, where tells
        index = 0
    return BadRequest(f"{where}: {message}" if where else message, param=param, index=index)


def _unknown(problem: Any) -> bool:
    return bool(problem["type"] == "extra_forbidden")


def _path(problem: Any) -> Path:
    # The names of a union's branches are ours, not the client's; that of an unknown field is not.
    known = len(problem["loc"]) - _unknown(problem)
    parts = enumerate(problem["loc"])
    return tuple(part for at, part in parts if at == known or not str(part).startswith("<"))


_LISTS = {
    "<batch>": "a text, its token ids, or a list of either",
    "<texts>": "a text or a list of texts",
    "<rows>": "token ids or a list of them",
    "<side>": "a text, a list of texts, or a list of vectors",
}
"""What is expected where a list is only one of several ways, by the branch of the union."""


def _plainer(problem: Any) -> str:
    branch = problem["loc"][-1] if problem["loc"] else ""
    if problem["type"] == "list_type" and branch in _LISTS:
        return f"Input should be {_LISTS[branch]}"
    return str(problem["msg"]).removeprefix("Value error, ")
