"""Errors from unreadable responses and from error bodies of other shapes."""

import pickle
from typing import Any

import httpx
import pytest

from embedwell_client import request_builders, responses
from embedwell_client.errors import RequestFailed

LIMITS = {"max_texts": 9, "max_tokens": 999, "max_body_bytes": 999}


def error_of(
    reply: httpx.Response | httpx.RequestError, api_request: request_builders.Request[Any]
) -> Any:
    """The error that a response or a transport error becomes."""
    with pytest.raises(RequestFailed) as raised:
        api_request.result(reply)
    assert pickle.loads(pickle.dumps(raised.value)).message == raised.value.message
    return raised.value


REQUESTS = [
    request_builders.build_info_request(),
    request_builders.build_limits_request(),
    request_builders.build_tokens_request("a", {}),
    request_builders.build_similarity_request("a", "b", {}),
    request_builders.build_positions_request({}),
    next(request_builders.build_embed_requests(["a"], {}, LIMITS, 2)),
]
HTML = "<html>Sign in</html>"


@pytest.mark.parametrize("api_request", REQUESTS, ids=lambda request: request.parse.__name__)
@pytest.mark.parametrize(
    ("content", "headers"),
    [
        (HTML, {}),
        ("[1]", {}),
        ('{"limits": {"max_texts": "many"}, "results": [{}], "top": 1, "positions": [["a"]]}', {}),
        ("[]", {"x-truncated": "0", "x-shape": "1,384", "x-dtype": "float32"}),
        ("[]", {"x-truncated": "0", "x-shape": "", "x-dtype": "number"}),
    ],
)
def test_an_unreadable_response_is_an_error(
    api_request: request_builders.Request[Any], content: str, headers: dict[str, str]
) -> None:
    if api_request.parse is responses.content and content != HTML:
        return  # any JSON will do
    error = error_of(httpx.Response(200, text=content, headers=headers), api_request)
    assert (error.status, error.code) == (200, "invalid_answer")
    assert error.message.startswith("the response cannot be read: ")


def test_a_response_that_cannot_be_decompressed_is_an_error() -> None:
    error = error_of(
        httpx.DecodingError("incorrect header check"), request_builders.build_info_request()
    )
    assert (error.status, error.code) == (None, "invalid_answer")
    assert error.message == "incorrect header check"


def test_the_error_without_a_response_names_the_server_and_no_password() -> None:
    request = httpx.Request("GET", "https://me:secret@host:81/info")
    failure = httpx.ConnectError("Connection refused", request=request)
    error = error_of(failure, request_builders.build_info_request())
    assert str(error) == "host:81 does not respond: Connection refused (unreachable)"


@pytest.mark.parametrize(
    ("error", "code", "message", "index"),
    [
        ({"code": "busy", "message": "input 1 is bad", "index": 1}, "busy", "input 5 is bad", 5),
        ({"code": None, "message": "upstream failed"}, "http_502", "upstream failed", None),
        ({"code": 7, "message": "odd", "index": "first"}, "http_502", "odd", None),
        ({"code": "x", "message": None, "index": 1}, "x", '{"error":{"code":"x"', 5),
        ({}, "http_502", '{"error":{}}', None),
        ("out of order", "http_502", "out of order", None),
    ],
)
def test_an_error_body_of_another_shape_is_read_as_far_as_possible(
    error: object, code: str, message: str, index: int | None
) -> None:
    api_request = request_builders.Request("/embed", responses.array, b"{}", first_index=4)
    raised = error_of(httpx.Response(502, json={"error": error}), api_request)
    assert (raised.status, raised.code, raised.index, raised.param) == (502, code, index, None)
    assert raised.message.startswith(message)
