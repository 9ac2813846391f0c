"""POST /tokenize and /decode against a running server, and the same in Cohere's format."""

import pytest

from tests.service.responses import error
from tests.service.routes.committed import check
from tests.service.server import HttpServer, Server

TEXT = "Über 北京 🦊!"


def test_tokens_have_byte_offsets_as_in_tei_and_character_offsets(server: Server) -> None:
    (tokens,) = server.post("/tokenize", {"inputs": TEXT}).json()
    assert [tokens[0][key] for key in ("id", "text", "special", "start", "stop")] == [
        *(101, "[CLS]", True, None, None),
    ]
    for token in tokens[1:-1]:
        assert TEXT[token["start_char"] : token["stop_char"]] == token["text"]
        assert TEXT.encode()[token["start"] : token["stop"]].decode() == token["text"]
    assert [t["text"] for t in tokens[1:-1]] == ["Über", "北", "京", "🦊", "!"]


def test_special_tokens_can_be_left_out(server: Server) -> None:
    body = {"inputs": ["a", "b"], "add_special_tokens": False}
    assert [len(row) for row in server.post("/tokenize", body).json()] == [1, 1]


def test_nothing_is_truncated(server: Server) -> None:
    assert len(server.post("/tokenize", {"inputs": "a " * 1000}).json()[0]) == 1002


def test_decode_inverts_tokenize(server: Server) -> None:
    rows = server.post("/tokenize", {"inputs": ["hello world", "again"]}).json()
    ids = [[token["id"] for token in row] for row in rows]
    assert server.post("/decode", {"ids": ids}).json() == ["hello world", "again"]
    body = {"ids": ids[1], "skip_special_tokens": False}
    assert server.post("/decode", body).json() == ["[CLS] again [SEP]"]


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/tokenize", {"inputs": []}, "no_input"),
        ("/tokenize", {"inputs": "a", "prompt_name": "query"}, "unknown_prompt"),
        ("/tokenize", {"inputs": 1}, "invalid_request"),
        ("/decode", {"ids": []}, "no_input"),
        ("/decode", {"ids": [-1]}, "invalid_request"),
        ("/decode", {"ids": [30522]}, "unknown_token"),
        ("/decode", {"ids": ["a"]}, "invalid_request"),
    ],
)
def test_an_invalid_body_is_refused(server: Server, path: str, body: object, code: str) -> None:
    assert error(server.post(path, body), 400)["code"] == code


COHERE_TEXT = "Über 北京!"


def test_tokens_have_no_special_ones_and_their_texts(server: HttpServer) -> None:
    response = server.post("/v1/tokenize", {"text": COHERE_TEXT, "model": "all-MiniLM-L6-v2"})
    check(response, "post", "/v1/tokenize")
    content = response.json()
    assert content["token_strings"] == ["Über", "北", "京", "!"]
    body = {"inputs": COHERE_TEXT, "add_special_tokens": False}
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
def test_an_invalid_body_in_coheres_format_is_refused(
    server: HttpServer, path: str, body: object, status: int, code: str
) -> None:
    response = server.post(path, body)
    assert error(response, status)["code"] == code
    assert response.json()["message"], "which Cohere's clients show"
