"""The requests of a batch: lines of JSON, each with a body for one route."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from embedwell.batches.batch import Problem
from embedwell.batches.limits import MAX_REQUESTS

_MAX_PROBLEMS = 100


class _Fields(BaseModel):
    model_config = ConfigDict(strict=True)

    custom_id: str
    method: Literal["POST"]
    url: str
    body: dict[str, Any]


@dataclass(frozen=True)
class RequestLine:
    """A request of a batch.

    custom_id: the client's name for it.
    body: the body as JSON.
    end: position in bytes after its line.
    """

    custom_id: str
    body: bytes
    end: int


def check_requests(path: Path, endpoint: str, line_bytes: int) -> tuple[int, list[Problem]]:
    """Count the requests of a file, and return up to 100 problems.

    line_bytes: maximum bytes of a request.
    """
    problems: list[Problem] = []
    ids: set[str] = set()
    with path.open("rb") as file:
        for number, line in _numbered_lines(file, line_bytes):
            problem = _find_problem(number, line, endpoint, ids, line_bytes)
            if len(ids) > MAX_REQUESTS:
                message = f"a batch can have at most {MAX_REQUESTS} requests; split the file"
                problem = Problem(code="too_many_requests", message=message)
            if problem is not None:
                problems.append(problem)
            if len(problems) >= _MAX_PROBLEMS or len(ids) > MAX_REQUESTS:
                break
    if not ids and not problems:
        problems.append(
            Problem(code="empty_file", message="the file has no requests; write one on each line")
        )
    return len(ids), problems


def request_groups(path: Path, start: int, max_bytes: int) -> Iterator[list[RequestLine]]:
    """Read the requests of a file without problems, in groups of so many bytes or one request.

    start: position in bytes of the first line to read.
    """
    with path.open("rb") as file:
        file.seek(start)
        group: list[RequestLine] = []
        size = 0
        for line in file:
            start += len(line)
            if line.strip():
                fields = orjson.loads(line)
                body = orjson.dumps(fields["body"])
                group.append(RequestLine(fields["custom_id"], body, start))
                size += len(line)
            if size >= max_bytes:
                yield group
                group, size = [], 0
        if group:
            yield group


def _numbered_lines(file: Any, line_bytes: int) -> Iterator[tuple[int, bytes]]:
    # One byte above the limit shows that a line exceeds it; the rest of the line is not read.
    number = 0
    while line := file.readline(line_bytes + 1):
        number += 1
        if line.strip():
            yield number, line
        if len(line) > line_bytes:
            return


def _find_problem(
    number: int, line: bytes, endpoint: str, ids: set[str], line_bytes: int
) -> Problem | None:
    """Return the problem of a line, if any; adds its name to `ids`."""

    def problem(code: str, message: str, param: str | None = None) -> Problem:
        return Problem(code=code, message=message, param=param, line=number)

    if len(line) > line_bytes:
        return problem("line_too_long", f"the request has more than {line_bytes} bytes; split it")
    try:
        fields = _Fields.model_validate(orjson.loads(line))
    except orjson.JSONDecodeError as error:
        return problem("invalid_json_line", f"the line is not JSON: {error}")
    except ValidationError as error:
        [first, *_] = error.errors()
        location = ".".join(map(str, first["loc"]))
        message = ": ".join(filter(None, [location, first["msg"]]))
        return problem("invalid_request", message, location or None)
    if fields.url != endpoint:
        return problem("invalid_url", f"url must be {endpoint!r}, the endpoint of the batch", "url")
    if fields.custom_id in ids:
        message = f"custom_id must be unique, but an earlier request also has {fields.custom_id!r}"
        return problem("duplicate_custom_id", message, "custom_id")
    ids.add(fields.custom_id)
    return None
