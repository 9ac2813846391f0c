"""Partial success: errors for invalid inputs, vectors for the others."""

from typing import Any

import numpy as np

from embedwell_models import Embedder
from tests.service.responses import error
from tests.service.server import Server

LONG = "word " * 600


def send(server: Server, inputs: object, **options: object) -> dict[str, Any]:
    response = server.post("/embed", {"inputs": inputs, "partial": True, **options})
    assert response.status_code == 200, response.text
    content: dict[str, Any] = response.json()
    return content


def test_invalid_inputs_are_errors_in_input_order(server: Server, embedder: Embedder) -> None:
    inputs = ["one", [], LONG, [101, 30522], "two", [101, -1, 102]]
    actual = send(server, inputs, on_overflow="error")
    codes = [result.get("error", {}).get("code") for result in actual["results"]]
    wrong = ["no_input", "input_too_long", "unknown_token", None, "unknown_token"]
    assert codes == [None, *wrong] and actual["failed"] == 4
    for index, result in enumerate(actual["results"]):
        assert "embedding" in result or result["error"]["index"] == index
    valid = [actual["results"][index] for index in (0, 4)]
    vectors = np.array([result["embedding"] for result in valid], dtype=np.float32)
    np.testing.assert_array_equal(vectors, embedder.embed(["one", "two"]))
    descriptions = [{k: v for k, v in result.items() if k != "embedding"} for result in valid]
    assert descriptions == [{"tokens": 3, "truncated": False, "dropped": 0}] * 2
    assert actual["usage"] == {"texts": 2, "tokens": 6}
    assert 0 < actual["timing"]["compute_us"] <= actual["timing"]["total_us"]


def test_without_partial_the_first_invalid_input_fails_the_request(server: Server) -> None:
    body = {"inputs": ["one", [], LONG], "on_overflow": "error"}
    assert error(server.post("/embed", body), 400)["index"] == 1


def test_valid_inputs_have_the_same_results_as_without_partial(
    server: Server, texts: list[str]
) -> None:
    texts = texts[:40]
    for options in (
        {"encoding_format": "base64"},
        {"output_dtype": "ubinary", "normalize": False},
        {"on_overflow": "mean", "output_dtype": "float16"},
    ):
        actual = send(server, texts, **options)
        plain = server.post("/embed", {"inputs": texts, "details": True, **options}).json()
        assert [result.pop("embedding") for result in actual["results"]] == plain["embeddings"]
        assert actual["results"] == plain["inputs"] and actual["failed"] == 0
        assert {**actual["usage"], **actual["prompt"]} == {**plain["usage"], **plain["prompt"]}


def test_only_invalid_inputs_give_only_errors(server: Server) -> None:
    actual = send(server, [[], []])
    assert actual["failed"] == 2 and actual["usage"] == {"texts": 0, "tokens": 0}


def test_an_input_beyond_a_limit_fails_alone(server: Server) -> None:
    # The prompt leaves room for two tokens in each of 1200 windows.
    inputs = ["fine", "a " * 2400]
    actual = send(server, inputs, on_overflow="mean", prompt="b " * 252)
    assert actual["results"][1]["error"]["code"] == "too_many_tokens"
    assert "embedding" in actual["results"][0]


def test_an_invalid_request_fails_as_a_whole(server: Server) -> None:
    bodies: list[dict[str, object]] = [
        {"inputs": ["one", 2]},
        {"inputs": []},
        {"inputs": ["one"], "dimensions": 12},
        {"inputs": [[]], "dimensions": 12},
        {"inputs": ["one"], "prompt_name": "none"},
    ]
    for body in bodies:
        error(server.post("/embed", {**body, "partial": True}), 400)
