"""The exception of the Python clients, and functions that create it from a failed request."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(eq=False)
class RequestFailed(Exception):
    """An error response (docs/errors.md), or no response.

    status: None without a response.
    code: the error's code. Without a response it is unreachable or timeout, or invalid_request for
        a request that cannot be sent; for an unreadable response invalid_answer; for an error
        without a code, one such as http_502.
    index: index of the input that caused the error, among all inputs.
    """

    status: int | None
    code: str
    message: str
    param: str | None = None
    index: int | None = None
    request_id: str | None = None

    def __str__(self) -> str:
        request = self.request_id and f"request {self.request_id}"
        details = [str(value) for value in (self.status, self.code, request) if value]
        return f"{self.message} ({', '.join(details)})"


def no_response(error: httpx.RequestError) -> RequestFailed:
    """Create the error for a request without a response, or with a corrupt compressed one."""
    reason = str(error) or repr(error)
    if isinstance(error, httpx.DecodingError):
        return RequestFailed(None, "invalid_answer", reason)
    code = "timeout" if isinstance(error, httpx.TimeoutException) else "unreachable"
    address = error.request.url.netloc.decode()  # without a password
    return RequestFailed(None, code, f"{address} does not respond: {reason}")


def unreadable_response(response: httpx.Response, error: Exception) -> RequestFailed:
    """Create the error for a response that is not from this server.

    error: the exception that reading it raised.
    """
    message = (
        f"the response cannot be read: {error!r} in {response.text[:200]!r}; check the server's "
        "address"
    )
    return RequestFailed(
        response.status_code, "invalid_answer", message, request_id=_request_id(response)
    )


def error_response(response: httpx.Response, first_index: int) -> RequestFailed:
    """Create the error for an error response, which may be a gateway's.

    first_index: index of the request's first input.
    """
    details, request_id = _error_details(response), _request_id(response)
    code, message, param, index = map(details.get, ("code", "message", "param", "index"))
    if not isinstance(code, str):
        code = f"http_{response.status_code}"
    if not isinstance(message, str):
        message = response.text[:200] or response.reason_phrase
    if not isinstance(index, int):
        return RequestFailed(response.status_code, code, message, param, None, request_id)
    index_of_all = index + first_index  # the server counts from the start of the batch
    message = re.sub(rf"\b(input |inputs\.){index}\b", rf"\g<1>{index_of_all}", message)
    return RequestFailed(response.status_code, code, message, param, index_of_all, request_id)


def _error_details(response: httpx.Response) -> Mapping[str, Any]:
    """Return the fields of an error in any of the server's formats, or a gateway's in OpenAI's."""
    try:
        content = response.json()
        error = content["error"]
    except (ValueError, KeyError, TypeError):
        return {}
    return error if isinstance(error, dict) else {**content, "message": error}


def _request_id(response: httpx.Response) -> str | None:
    request_id: str | None = response.headers.get("x-request-id")
    return request_id
