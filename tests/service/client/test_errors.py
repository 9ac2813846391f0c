"""What becomes of answers that are none of the server's."""

import pickle
from typing import Any

import httpx
import pytest

from service.client import requests, responses
from service.client.errors import RequestFailed

LIMITS = {"max_texts": 9, "max_tokens": 999, "max_body_bytes": 999}


def failure(found: httpx.Response | httpx.RequestError, asked: requests.Request[Any]) -> Any:
    """What an answer is told as, of which nothing can be read."""
    with pytest.raises(RequestFailed) as failed:
        asked.result(found)
    assert pickle.loads(pickle.dumps(failed.value)).message == failed.value.message
    return failed.value


ASKED = [
    requests.info(),
    requests.limits(),
    requests.tokens("a", {}),
    requests.similarity("a", "b", {}),
    requests.positions({}),
    next(requests.embed(["a"], {}, LIMITS, 2)),
]
HTML = "<html>Sign in</html>"


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: asked.read.__name__)
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
def test_an_answer_that_cannot_be_read_is_a_failure(
    asked: requests.Request[Any], content: str, headers: dict[str, str]
) -> None:
    if asked.read is responses.content and content != HTML:
        return  # any JSON will do
    found = failure(httpx.Response(200, text=content, headers=headers), asked)
    assert (found.status, found.code) == (200, "invalid_answer")
    assert found.message.startswith("the answer cannot be read: ")


def test_an_answer_that_cannot_be_unpacked_is_a_failure() -> None:
    found = failure(httpx.DecodingError("incorrect header check"), requests.info())
    assert (found.status, found.code) == (None, "invalid_answer")
    assert found.message == "incorrect header check"


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
def test_an_error_of_another_shape_is_told_as_far_as_it_goes(
    error: object, code: str, message: str, index: int | None
) -> None:
    asked = requests.Request("/embed", responses.array, b"{}", first=4)
    found = failure(httpx.Response(502, json={"error": error}), asked)
    assert (found.status, found.code, found.index, found.param) == (502, code, index, None)
    assert found.message.startswith(message)
