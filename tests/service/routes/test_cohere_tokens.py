"""POST /v1/tokenize and /v1/detokenize, in Cohere's format."""

import pytest

from tests.service.responses import error
from tests.service.routes.committed import check
from tests.service.server import HttpServer

TEXT = "Über 北京!"


def test_tokens_have_no_special_ones_and_their_texts(server: HttpServer) -> None:
    response = server.post("/v1/tokenize", {"text": TEXT, "model": "all-MiniLM-L6-v2"})
    check(response, "post", "/v1/tokenize")
    content = response.json()
    assert content["token_strings"] == ["Über", "北", "京", "!"]
    body = {"inputs": TEXT, "add_special_tokens": False}
    [tokens] = server.post("/tokenize", body).json()
    assert content["tokens"] == [token["id"] for token in tokens]
    assert content["meta"] == {"api_version": {"version": "1"}}
    assert server.post("/v1/tokenize", {"text": ""}).json()["tokens"] == []


def test_token_ids_are_decoded(server: HttpServer) -> None:
    tokens = server.post("/v1/tokenize", {"text": "hello world"}).json()["tokens"]
    response = server.post("/v1/detokenize", {"tokens": tokens, "model": "all-MiniLM-L6-v2"})
    check(response, "post", "/v1/detokenize")
    assert response.json()["text"] == "hello world"
    assert server.post("/v1/detokenize", {"tokens": []}).json()["text"] == ""


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/v1/tokenize", {"text": "a", "model": "nobody"}, 404, "model_not_found"),
        ("/v1/tokenize", {"text": ["a"]}, 400, "invalid_request"),
        ("/v1/detokenize", {"tokens": [30522]}, 400, "unknown_token"),
        ("/v1/detokenize", {"tokens": [-1]}, 400, "invalid_request"),
    ],
)
def test_an_invalid_body_is_refused(
    server: HttpServer, path: str, body: object, status: int, code: str
) -> None:
    response = server.post(path, body)
    assert error(response, status)["code"] == code
    assert response.json()["message"], "which Cohere's clients show"
