"""POST /embed against a running server, also with errors of some inputs and vectors of others."""

import base64
import concurrent.futures
import gzip
import json
from typing import Any

import numpy as np
import pytest

from embedwell_models import Embedder
from embedwell_models.vectors import quantize
from tests.service.responses import error, vectors
from tests.service.server import Server


def test_the_vector_of_a_text_is_that_of_the_embedder(server: Server, embedder: Embedder) -> None:
    actual = vectors(server.post("/embed", {"inputs": "Hello, world"}))
    np.testing.assert_array_equal(actual, embedder.embed(["Hello, world"]))


def test_two_hundred_texts_in_one_request_keep_their_order(
    server: Server, embedder: Embedder, texts: list[str]
) -> None:
    actual = vectors(server.post("/embed", {"inputs": texts}))
    np.testing.assert_array_equal(actual, embedder.embed(texts))


@pytest.mark.full
def test_sixty_four_clients_get_the_same_bytes_as_one(server: Server, texts: list[str]) -> None:
    texts = texts[:100]

    def send(text: str) -> bytes:
        response = server.post("/embed", {"inputs": text})
        assert response.status_code == 200, response.text
        return response.content

    alone = [send(text) for text in texts]
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        together = list(pool.map(send, texts))
    assert together == alone
    batch = server.post("/embed", {"inputs": texts}).json()
    assert [[vector] for vector in batch] == [json.loads(content) for content in alone]


def test_token_ids_of_tokenize_give_the_vector_of_the_text(server: Server) -> None:
    text = "Token ids are a faithful way in."
    ids = [token["id"] for token in server.post("/tokenize", {"inputs": text}).json()[0]]
    expected = vectors(server.post("/embed", {"inputs": text}))
    np.testing.assert_array_equal(vectors(server.post("/embed", {"inputs": ids})), expected)
    mixed = vectors(server.post("/embed", {"inputs": ["other", ids, text]}))
    np.testing.assert_array_equal(mixed[1:], np.concatenate([expected, expected]))


def test_post_to_the_root_embeds_as_in_tei(server: Server) -> None:
    body = {"inputs": "root"}
    assert server.post("/", body).content == server.post("/embed", body).content


def test_normalize_false_keeps_the_length_of_the_pooled_vector(
    server: Server, embedder: Embedder
) -> None:
    actual = vectors(server.post("/embed", {"inputs": "long or short", "normalize": False}))
    ids = embedder.tokenize(["long or short"])
    np.testing.assert_array_equal(actual, embedder.encode(ids, normalized=False))
    assert abs(np.linalg.norm(actual) - 1) > 0.01


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8", "binary", "ubinary"])
def test_every_output_type_is_the_same_as_numbers_and_as_base64(server: Server, dtype: str) -> None:
    body = {"inputs": ["one", "two words"], "output_dtype": dtype}
    exact = vectors(server.post("/embed", {"inputs": ["one", "two words"]}))
    expected = quantize(exact, dtype)
    numbers = server.post("/embed", body).json()
    np.testing.assert_array_equal(np.array(numbers, dtype=expected.dtype), expected)
    strings = server.post("/embed", {**body, "encoding_format": "base64"}).json()
    decoded = [np.frombuffer(base64.b64decode(row), dtype=expected.dtype) for row in strings]
    np.testing.assert_array_equal(np.stack(decoded), expected)


def test_details_have_tokens_truncation_and_timing(server: Server) -> None:
    body = {"inputs": ["short", "word " * 600], "details": True}
    response = server.post("/embed", body)
    content = response.json()
    assert content["inputs"] == [
        {"tokens": 3, "truncated": False, "dropped": 0},
        {"tokens": 256, "truncated": True, "dropped": 346},
    ]
    assert content["usage"] == {"texts": 2, "tokens": 259}
    assert content["prompt"] == {"name": None, "text": ""}
    assert content["dimensions"] == len(content["embeddings"][1]) == 384
    assert 0 < content["timing"]["compute_us"] <= content["timing"]["total_us"]
    assert response.headers["x-tokens"] == "259"
    assert response.headers["x-truncated"] == "1"
    assert int(response.headers["x-compute-us"]) == content["timing"]["compute_us"]


def test_truncation_cuts_at_the_requested_side(server: Server, embedder: Embedder) -> None:
    text = "beginning " + "word " * 600 + "ending"
    left = vectors(server.post("/embed", {"inputs": text, "truncation_direction": "Left"}))
    right = vectors(server.post("/embed", {"inputs": text}))
    ids = embedder.tokenizer.encode([text], "left")[0].ids
    np.testing.assert_array_equal(left, embedder.encode([ids]))
    assert not np.array_equal(left, right)


def test_a_long_text_without_truncation_is_refused_by_index(server: Server) -> None:
    body = {"inputs": ["fine", "word " * 600], "truncate": False}
    fault = error(server.post("/embed", body), 400)
    assert (fault["code"], fault["index"]) == ("input_too_long", 1)
    assert "602 tokens" in fault["message"] and "256" in fault["message"]


def test_a_prompt_is_put_before_every_text(server: Server) -> None:
    plain = vectors(server.post("/embed", {"inputs": ["query: red", "query: blue"]}))
    actual = vectors(server.post("/embed", {"inputs": ["red", "blue"], "prompt": "query: "}))
    np.testing.assert_array_equal(actual, plain)


@pytest.mark.parametrize(
    ("body", "code", "param", "index"),
    [
        ({"inputs": "a", "nonsense": 1}, "unknown_field", "nonsense", None),
        ({"input": "a"}, "unknown_field", "input", None),
        ({}, "invalid_request", "inputs", None),
        ({"inputs": []}, "no_input", "inputs", None),
        ({"inputs": ["a", None]}, "invalid_request", "inputs", 1),
        ({"inputs": ["a", [1.5]]}, "invalid_request", "inputs", 1),
        ({"inputs": ["a", []]}, "no_input", "inputs", 1),
        ({"inputs": [[101, 102], [101, 30522]]}, "unknown_token", "inputs", 1),
        ({"inputs": [-1]}, "unknown_token", "inputs", 0),
        ({"inputs": "a", "dimensions": 385}, "too_many_dimensions", "dimensions", None),
        ({"inputs": "a", "dimensions": 0}, "invalid_request", "dimensions", None),
        ({"inputs": "a", "normalize": "yes"}, "invalid_request", "normalize", None),
        ({"inputs": "a", "output_dtype": "int4"}, "invalid_request", "output_dtype", None),
        ({"inputs": "a", "prompt_name": "query"}, "unknown_prompt", "prompt_name", None),
        ({"inputs": "a", "prompt": "b", "prompt_name": "c"}, "invalid_request", "prompt", None),
    ],
)
def test_an_invalid_body_is_refused_with_field_and_index(
    server: Server, body: object, code: str, param: str | None, index: int | None
) -> None:
    fault = error(server.post("/embed", body), 400)
    assert (fault["code"], fault["param"], fault["index"]) == (code, param, index)
    assert fault["message"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'"text"', b"\xff", b'{"inputs": "\\ud8"}'])
def test_a_body_that_is_not_a_json_object_is_refused(server: Server, content: bytes) -> None:
    error(server.client.post("/embed", content=content), 400)


@pytest.mark.parametrize(
    "content", ['{"inputs": "é"}'.encode("latin-1"), gzip.compress(b"{}")], ids=["Latin-1", "gzip"]
)
def test_a_body_in_other_bytes_is_told_to_send_utf_8(server: Server, content: bytes) -> None:
    fault = error(server.client.post("/embed", content=content), 400)
    assert "UTF-8" in fault["message"] and "content-encoding" in fault["message"]


TOO_LONG = "word " * 600


def send_partial(server: Server, inputs: object, **options: object) -> dict[str, Any]:
    response = server.post("/embed", {"inputs": inputs, "partial": True, **options})
    assert response.status_code == 200, response.text
    content: dict[str, Any] = response.json()
    return content


def test_invalid_inputs_are_errors_in_input_order(server: Server, embedder: Embedder) -> None:
    inputs = ["one", [], TOO_LONG, [101, 30522], "two", [101, -1, 102]]
    actual = send_partial(server, inputs, on_overflow="error")
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


def test_a_partial_response_without_a_vector_states_the_dimensions(server: Server) -> None:
    content = send_partial(server, [[]])
    assert (content["failed"], content["dimensions"]) == (1, 384)


def test_without_partial_the_first_invalid_input_fails_the_request(server: Server) -> None:
    body = {"inputs": ["one", [], TOO_LONG], "on_overflow": "error"}
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
        actual = send_partial(server, texts, **options)
        plain = server.post("/embed", {"inputs": texts, "details": True, **options}).json()
        assert [result.pop("embedding") for result in actual["results"]] == plain["embeddings"]
        assert actual["results"] == plain["inputs"] and actual["failed"] == 0
        assert {**actual["usage"], **actual["prompt"]} == {**plain["usage"], **plain["prompt"]}


def test_only_invalid_inputs_give_only_errors(server: Server) -> None:
    actual = send_partial(server, [[], []])
    assert actual["failed"] == 2 and actual["usage"] == {"texts": 0, "tokens": 0}


def test_an_input_beyond_a_limit_fails_alone(server: Server) -> None:
    # The prompt leaves room for two tokens in each of 1200 windows.
    inputs = ["fine", "a " * 2400]
    actual = send_partial(server, inputs, on_overflow="mean", prompt="b " * 252)
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
