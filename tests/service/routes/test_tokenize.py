"""POST /tokenize and /decode against a running server."""

import pytest

from tests.service.responses import error
from tests.service.server import Server

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
