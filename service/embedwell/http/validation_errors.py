"""Errors of invalid requests: what pydantic found, in words for the client."""

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, Tag, ValidationError
from pydantic_core import ErrorDetails

from embedwell.errors import BadRequest, Path, describe_path

_COMPARED = 100  # characters of an unknown field
_SIMILARITY = 0.78  # of a misspelling; difflib's 0.6 takes other words, too
_LISTS = {
    "<batch>": "a text, its token ids, or a list of either",
    "<texts>": "a text or a list of texts",
    "<rows>": "token ids or a list of them",
    "<side>": "a text, a list of texts, or a list of vectors",
}
"""Maps the name of a union's branch for lists to the values that the union accepts."""
_MESSAGES = {
    "bool_type": "Input should be true or false",
    "list_type": "Input should be a list",
    "string_type": "Input should be a text",
}
"""Maps the type of a problem to its message."""
_OTHER_MEDIA = (
    ": videos and sounds are not read; send a video's frames as images, or use "
    "sentence-transformers"
)


def invalid_body(
    error: ValidationError, body_type: type[BaseModel], input_fields: Collection[str]
) -> BadRequest:
    """Convert the error of an invalid body; that of an unknown field says which ones there are.

    input_fields: fields that have one entry for each input.
    """
    problems = problems_of(error)
    described = describe_problems(problems, input_fields)
    if (unknown := next(filter(_unknown, problems), None)) is None:
        return described
    *path, name = unknown["loc"]
    if fields := _fields(body_type, tuple(path)):
        _name_fields(described, str(name), fields)
    return described


def _name_fields(unknown: BadRequest, name: str, fields: Sequence[str]) -> None:
    """Add to the error of an unknown field the one that is similar, or else all."""
    if similar := get_close_matches(name[:_COMPARED], fields, n=1, cutoff=_SIMILARITY):
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


def problems_of(error: ValidationError) -> Sequence[ErrorDetails]:
    """Return what is wrong with a request, without the request's values."""
    return error.errors(include_url=False, include_input=False)


def describe_problems(
    problems: Sequence[ErrorDetails], input_fields: Collection[str] = ()
) -> BadRequest:
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
    if simple := _MESSAGES.get(problem["type"]):
        return simple
    message = str(problem["msg"]).removeprefix("Value error, ").replace(" after validation", "")
    return message.partition(", unable to parse")[0]
