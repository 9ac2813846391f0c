"""What went wrong with a request, as the clients in Python tell it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(eq=False)
class RequestFailed(Exception):
    """An answer that is an error (docs/errors.md), or none.

    status: None where there was no answer; then code is unreachable or timeout, or invalid_request
    for what cannot be sent. Where an answer cannot be read, code is invalid_answer; where an error
    has none, http_502, say. index: of the input at fault, among all that were given.
    """

    status: int | None
    code: str
    message: str
    param: str | None = None
    index: int | None = None
    request_id: str | None = None

    def __str__(self) -> str:
        request = self.request_id and f"request {self.request_id}"
        about = [str(each) for each in (self.status, self.code, request) if each]
        return f"{self.message} ({', '.join(about)})"


def lost(error: httpx.RequestError) -> RequestFailed:
    """No answer came, or nothing that can be unpacked."""
    code = "timeout" if isinstance(error, httpx.TimeoutException) else "unreachable"
    if isinstance(error, httpx.DecodingError):
        code = "invalid_answer"
    return RequestFailed(None, code, str(error) or repr(error))


def unreadable(found: httpx.Response, error: Exception) -> RequestFailed:
    """An answer is none of this server's. error: what reading it raised."""
    told = f"the answer cannot be read: {error!r} in {found.text[:200]!r}"
    return RequestFailed(found.status_code, "invalid_answer", told, request_id=_request(found))


def refused(found: httpx.Response, first: int) -> RequestFailed:
    """The answer is an error, maybe a gateway's. first: which input the request began with."""
    told = _told(found)
    code, message, param, index = map(told.get, ("code", "message", "param", "index"))
    if not isinstance(code, str):
        code = f"http_{found.status_code}"
    if not isinstance(message, str):
        message = found.text[:200] or found.reason_phrase
    if not isinstance(index, int):
        return RequestFailed(found.status_code, code, message, param, None, _request(found))
    place = index + first  # the server counts from the start of the batch
    message = re.sub(rf"\b(input |inputs\.){index}\b", rf"\g<1>{place}", message)
    return RequestFailed(found.status_code, code, message, param, place, _request(found))


def _told(found: httpx.Response) -> Mapping[str, Any]:
    """What an error tells, with its message: the server's, or the gateway's in OpenAI's shape."""
    try:
        content = found.json()
        error = content["error"]
    except (ValueError, KeyError, TypeError):
        return {}
    return error if isinstance(error, dict) else {**content, "message": error}


def _request(found: httpx.Response) -> str | None:
    request: str | None = found.headers.get("x-request-id")
    return request
