"""Everything that can go wrong with a request, and its one JSON shape.

ServiceError
├── BadRequest 400          invalid_request, unknown_prompt, input_too_long, …
├── Malformed 400           invalid_request: no HTTP
├── Unauthorized 401        invalid_api_key
├── UnknownModel 404        model_not_found
├── NotFound 404            not_found: lists what there is
├── WrongMethod 405         method_not_allowed (with Allow)
├── ReceiveTimeout 408      receive_timeout
├── TooLarge 413            body_too_large, too_many_parts, too_many_texts, …
├── Unsupported 415         unsupported_type, unsupported_encoding
├── HeadTooLarge 431        head_too_large
├── Overloaded 429          overloaded (with Retry-After)
├── HungUp 499              client_gone; only metrics see it
├── EncodingFailed 500      encoding_failed
│   └── NotFinite 500       not_finite
├── EngineLost 503          engine_unavailable (with Retry-After)
├── Leaving 503             shutting_down (with Retry-After)
└── TimedOut 504            timeout (with Retry-After)
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route

log = logging.getLogger(__name__)

_LONGEST = 1000  # characters of a message

Envelope = Callable[[dict[str, Any]], dict[str, Any]]
"""What a route makes of an error's content."""


class ServiceError(Exception):
    """An answer other than the one asked for.

    param: the field at fault. index: which of the inputs. retry: seconds after which to try again.
    """

    status = 500
    code = "internal_error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        index: int | None = None,
        retry: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.param, self.index, self.retry = message, param, index, retry
        self.code = code or type(self).code
        self.headers = {} if retry is None else {"retry-after": str(max(1, round(retry)))}


class BadRequest(ServiceError):
    status, code = 400, "invalid_request"


class Unauthorized(ServiceError):
    status, code = 401, "invalid_api_key"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.headers["www-authenticate"] = "Bearer"


class UnknownModel(ServiceError):
    status, code = 404, "model_not_found"


class NotFound(ServiceError):
    status, code = 404, "not_found"


class WrongMethod(ServiceError):
    status, code = 405, "method_not_allowed"

    def __init__(self, message: str, allowed: str) -> None:
        super().__init__(message)
        self.headers["allow"] = allowed


class Cut(ServiceError):
    """The end of the connection, too: the rest of the request may come yet."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.headers["connection"] = "close"


class Malformed(Cut):
    status, code = 400, "invalid_request"


class ReceiveTimeout(Cut):
    status, code = 408, "receive_timeout"


class HeadTooLarge(Cut):
    status, code = 431, "head_too_large"


class TooLarge(ServiceError):
    status, code = 413, "too_large"


class Unsupported(ServiceError):
    status, code = 415, "unsupported"

    def __init__(self, message: str, *, code: str, header: str, supported: str) -> None:
        """header: that tells what is supported."""
        super().__init__(message, code=code)
        self.headers[header] = supported


class Overloaded(ServiceError):
    status, code = 429, "overloaded"


class HungUp(ServiceError):
    status, code = 499, "client_gone"  # nginx's number for it


class EncodingFailed(ServiceError):
    status, code = 500, "encoding_failed"


class NotFinite(EncodingFailed):
    """A number that JSON has no word for, and no other answer should have."""

    code = "not_finite"


class EngineLost(ServiceError):
    status, code = 503, "engine_unavailable"


class Leaving(ServiceError):
    status, code = 503, "shutting_down"


class TimedOut(ServiceError):
    status, code = 504, "timeout"


def install(app: FastAPI) -> None:
    """Answer every exception in the one shape."""
    app.add_exception_handler(ServiceError, _service)
    app.add_exception_handler(ValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


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
        "type": "invalid_request_error" if error.status < 500 else "server_error",
        "param": error.param and _short(error.param),
        "code": error.code,
        "index": error.index,
    }


def _short(text: str) -> str:
    # What a client sent need not come back whole.
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def explain(error: ValidationError) -> BadRequest:
    """The first problem of an invalid body, naming the field and the index of the input."""
    found: list[Any] = error.errors(include_url=False, include_context=False, include_input=False)
    # A misspelt field is told before the one that is missed because of it.
    first = next((each for each in found if each["type"] == "extra_forbidden"), found[0])
    # The names of a union's branches are ours, not the client's.
    path = [part for part in first["loc"] if not str(part).startswith("<")]
    param = next((part for part in path if isinstance(part, str)), None)
    index = next((part for part in path if isinstance(part, int)), None)
    where = ".".join(str(part) for part in path)
    if first["type"] == "extra_forbidden":
        return BadRequest(f"unknown field {where!r}", code="unknown_field", param=where)
    message = _plainer(first)
    return BadRequest(f"{where}: {message}" if where else message, param=param, index=index)


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


async def _service(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    return respond(error, request.state.call.id)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, ValidationError)
    return respond(explain(error), request.state.call.id)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kinds: dict[int, Callable[[Request], ServiceError]] = {404: _nowhere, 405: _wrong_method}
    if error.status_code in kinds:
        return respond(kinds[error.status_code](request), request.state.call.id)
    wrapped = ServiceError(str(error.detail))
    wrapped.status = error.status_code
    return respond(wrapped, request.state.call.id)


def _nowhere(request: Request) -> NotFound:
    all_known = _methods(request.app.routes)
    known = sorted({f"{how} {route.path}" for route, how in all_known if how != "HEAD"})
    return NotFound(f"nothing is at {request.url.path}; there are {', '.join(known)}")


def _wrong_method(request: Request) -> WrongMethod:
    routes: list[BaseRoute] = request.app.routes
    matching = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    allowed = ", ".join(sorted({method for _, method in _methods(matching)}))
    return WrongMethod(f"{request.method} is not for {request.url.path}, but {allowed}", allowed)


def _methods(routes: Sequence[BaseRoute]) -> Iterator[tuple[Route, str]]:
    for route in routes:
        if isinstance(route, Route):
            yield from ((route, method) for method in route.methods or ())


async def _unexpected(request: Request, error: Exception) -> Response:
    # What is raised here is raised again by FastAPI, and logged at the edge.
    unexpected = ServiceError("an unexpected error; see the server's log")
    return respond(unexpected, request.state.call.id)
