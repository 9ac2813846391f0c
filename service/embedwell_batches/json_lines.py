"""JSON lines: the requests of a batch, each with a body for one route; and ends of lines."""

from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from embedwell.errors import BadRequest, ServiceError, TooLarge
from embedwell.routes.common.body import check_json_parts
from embedwell_batches.batch import MAX_LINES, MAX_NAME, MAX_REQUESTS, Problem

_MAX_PROBLEMS = 100


class _Fields(BaseModel):
    model_config = ConfigDict(strict=True)

    custom_id: Annotated[str, Field(max_length=MAX_NAME)]
    method: Literal["POST"]
    url: str
    body: dict[str, Any]


@dataclass(frozen=True)
class RequestLine:
    """A request of a batch.

    custom_id: the client's name for it.
    url: the path of its route.
    body: the body as JSON.
    end: position in bytes after its line.
    """

    custom_id: str
    url: str
    body: bytes
    end: int


def check_requests(path: Path, endpoint: str, line_bytes: int) -> tuple[int, list[Problem]]:
    """Count the requests of a file, and return up to 100 problems.

    line_bytes: maximum bytes of a request.
    """
    checks, number = _Checks(endpoint), 0
    try:
        for number, (line, end) in enumerate(_lines(path, 0, line_bytes), 1):
            checks.check(number, line, end)
            if checks.done:
                break
    except TooLarge as error:  # the rest of the file cannot be read
        checks.add(error, number + 1)
    checks.check_count()
    return len(checks.numbers), checks.problems


def request_groups(
    path: Path, start: int, max_bytes: int, line_bytes: int, max_requests: int = MAX_REQUESTS
) -> Iterator[list[RequestLine]]:
    """Read the requests of a file in groups of so many bytes or requests, or of one request.

    start: position in bytes of the first line to read.
    line_bytes: maximum bytes of a request.
    Raises ServiceError for a line that is not a request.
    """
    group: list[RequestLine] = []
    size = 0
    for line, end in _lines(path, start, line_bytes):
        if line.strip():
            group.append(_parse(line, end))
            size += len(line)
        if group and (size >= max_bytes or len(group) >= max_requests):
            yield group
            group, size = [], 0
    if group:
        yield group


class _Checks:
    """Finds problems in the lines of a file.

    numbers: line numbers by a hash of the custom_id.
    """

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self.numbers: dict[bytes, int] = {}
        self.problems: list[Problem] = []

    @property
    def done(self) -> bool:
        """Whether there are so many problems or requests that the rest does not matter."""
        return len(self.problems) >= _MAX_PROBLEMS or len(self.numbers) > MAX_REQUESTS

    def add(self, error: ServiceError, number: int | None = None) -> None:
        """Note a problem, of a line or of the whole file."""
        problem = Problem(code=error.code, message=error.message, param=error.param, line=number)
        self.problems.append(problem)

    def check(self, number: int, line: bytes, end: int) -> None:
        """Note the problem of a line, if any."""
        if line.strip():
            try:
                self._check(number, _parse(line, end))
            except BadRequest as error:
                self.add(error, number)

    def check_count(self) -> None:
        """Note the problem of too many requests, or of none."""
        if len(self.numbers) > MAX_REQUESTS:
            message = f"a batch can have at most {MAX_REQUESTS} requests; split the file"
            self.add(TooLarge(message, code="too_many_requests"))
        elif not self.numbers and not self.problems:
            message = "the file has no requests; write one on each line"
            self.add(BadRequest(message, code="empty_file"))

    def _check(self, number: int, request: RequestLine) -> None:
        if request.url != self._endpoint:
            message = f"url must be {self._endpoint!r}, the endpoint of the batch"
            raise BadRequest(message, code="invalid_url", param="url")
        name = blake2b(request.custom_id.encode(), digest_size=16).digest()
        first = self.numbers.setdefault(name, number)
        if first != number:
            raise BadRequest(
                f"custom_id must be unique, but line {first} has the same",
                code="duplicate_custom_id",
                param="custom_id",
            )


def _lines(path: Path, start: int, line_bytes: int) -> Iterator[tuple[bytes, int]]:
    """Read lines, also empty ones, each with the position after it; raises TooLarge."""
    with path.open("rb") as file:
        file.seek(start)
        for number in range(MAX_LINES + 1):
            # One byte above the limit shows that a line exceeds it; the rest of it is not read.
            line = file.readline(line_bytes + 1)
            if not line:
                return
            if len(line) > line_bytes:
                raise TooLarge(
                    f"a line has more than {line_bytes} bytes; split the request",
                    code="line_too_long",
                )
            if number == MAX_LINES:
                raise TooLarge(
                    f"a file can have at most {MAX_LINES} lines; split it", code="too_many_lines"
                )
            mark = b"" if start else BOM_UTF8  # at the start of files that some editors write
            start += len(line)
            yield line.removeprefix(mark), start


def _parse(line: bytes, end: int) -> RequestLine:
    """Read the request of a line; raises BadRequest."""
    try:
        check_json_parts(line)
        fields = _Fields.model_validate(orjson.loads(line))
        return RequestLine(fields.custom_id, fields.url, orjson.dumps(fields.body), end)
    except TooLarge as error:
        raise BadRequest(error.message, code=error.code) from None
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the line is not JSON: {error}", code="invalid_json_line") from None
    except orjson.JSONEncodeError:  # deeper than any route reads
        message = "the body is nested too deeply; give it at most 200 levels"
        raise BadRequest(message, code="invalid_request", param="body") from None
    except ValidationError as error:
        raise _invalid(error) from None


def _invalid(error: ValidationError) -> BadRequest:
    [first, *_] = error.errors(include_input=False)
    location = ".".join(map(str, first["loc"]))
    message = ": ".join(filter(None, [location, first["msg"]]))
    return BadRequest(message, param=location or None)
