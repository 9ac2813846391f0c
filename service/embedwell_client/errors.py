"""The exception of the Python clients, and how it is made from a failed request."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(eq=False)
class RequestFailed(Exception):
    """An error response (docs/errors.md), or no response.

    status: None without a response; then code is unreachable or timeout, or invalid_request for
    what cannot be sent. For an unreadable response code is invalid_answer; for an error without a
    code, one such as http_502. index: of the input at fault, among all inputs.
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
    """Error for a request without a response, or with one that cannot be decompressed."""
    code = "timeout" if isinstance(error, httpx.TimeoutException) else "unreachable"
    if isinstance(error, httpx.DecodingError):
        code = "invalid_answer"
    return RequestFailed(None, code, str(error) or repr(error))


def unreadable_response(response: httpx.Response, error: Exception) -> RequestFailed:
    """Error for a response that is not this server's. error: raised when it was read."""
    message = f"the answer cannot be read: {error!r} in {response.text[:200]!r}"
    return RequestFailed(
        response.status_code, "invalid_answer", message, request_id=_request_id(response)
    )


def error_response(response: httpx.Response, first_index: int) -> RequestFailed:
    """Error for an error response, maybe a gateway's. first_index: of the request's first input."""
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
    """The fields of an error, in any of the server's shapes or a gateway's in OpenAI's."""
    try:
        content = response.json()
        error = content["error"]
    except (ValueError, KeyError, TypeError):
        return {}
    return error if isinstance(error, dict) else {**content, "message": error}


def _request_id(response: httpx.Response) -> str | None:
    request_id: str | None = response.headers.get("x-request-id")
    return request_id
