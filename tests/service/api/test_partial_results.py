"""Partial success: bad inputs are errors in their places, the others have their vectors."""

from typing import Any

import numpy as np

from models import Embedder
from tests.service.responses import error
from tests.service.server import Server

LONG = "word " * 600


def ask(server: Server, inputs: object, **options: object) -> dict[str, Any]:
    answer = server.post("/embed", {"inputs": inputs, "partial": True, **options})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_bad_inputs_are_errors_in_their_places(server: Server, embedder: Embedder) -> None:
    inputs = ["one", [], LONG, [101, 30522], "two", [101, -1, 102]]
    found = ask(server, inputs, on_overflow="error")
    codes = [result.get("error", {}).get("code") for result in found["results"]]
    wrong = ["no_input", "input_too_long", "unknown_token", None, "unknown_token"]
    assert codes == [None, *wrong] and found["failed"] == 4
    for index, result in enumerate(found["results"]):
        assert "embedding" in result or result["error"]["index"] == index
    good = [found["results"][index] for index in (0, 4)]
    vectors = np.array([result["embedding"] for result in good], dtype=np.float32)
    np.testing.assert_array_equal(vectors, embedder.embed(["one", "two"]))
    told = [{k: v for k, v in result.items() if k != "embedding"} for result in good]
    assert told == [{"tokens": 3, "truncated": False, "dropped": 0}] * 2
    assert found["usage"] == {"texts": 2, "tokens": 6}
    assert 0 < found["timing"]["compute_us"] <= found["timing"]["total_us"]


def test_without_it_the_first_bad_input_is_the_answer(server: Server) -> None:
    body = {"inputs": ["one", [], LONG], "on_overflow": "error"}
    assert error(server.post("/embed", body), 400)["index"] == 1


def test_good_inputs_get_what_they_get_without_it(server: Server, texts: list[str]) -> None:
    texts = texts[:40]
    for options in (
        {"encoding_format": "base64"},
        {"output_dtype": "ubinary", "normalize": False},
        {"on_overflow": "mean", "output_dtype": "float16"},
    ):
        found = ask(server, texts, **options)
        plain = server.post("/embed", {"inputs": texts, "details": True, **options}).json()
        assert [result.pop("embedding") for result in found["results"]] == plain["embeddings"]
        assert found["results"] == plain["inputs"] and found["failed"] == 0
        assert {**found["usage"], **found["prompt"]} == {**plain["usage"], **plain["prompt"]}


def test_nothing_but_bad_inputs_is_nothing_but_errors(server: Server) -> None:
    found = ask(server, [[], []])
    assert found["failed"] == 2 and found["usage"] == {"texts": 0, "tokens": 0}


def test_an_input_that_is_too_much_alone_is_an_error_of_its_own(server: Server) -> None:
    # The prompt leaves room for two tokens in each of 1200 windows.
    inputs = ["fine", "a " * 2400]
    found = ask(server, inputs, on_overflow="mean", prompt="b " * 252)
    assert found["results"][1]["error"]["code"] == "too_many_tokens"
    assert "embedding" in found["results"][0]


def test_what_is_wrong_with_the_request_is_no_partial_success(server: Server) -> None:
    bodies: list[dict[str, object]] = [
        {"inputs": ["one", 2]},
        {"inputs": []},
        {"inputs": ["one"], "dimensions": 12},
        {"inputs": [[]], "dimensions": 12},
        {"inputs": ["one"], "prompt_name": "none"},
    ]
    for body in bodies:
        error(server.post("/embed", {**body, "partial": True}), 400)
