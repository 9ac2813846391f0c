"""Responses as JSON, the same bytes however large they are, or as arrays by the Accept header."""

import asyncio
import io
from typing import Any

import httpx
import numpy as np
import orjson
import pytest

from embedwell.http.request_context import RequestContext
from embedwell.routes.common.response_body import (
    BYTES,
    JSON,
    NPY,
    dump,
    dump_response,
    preferred_media_type,
)
from embedwell_models.vectors import Floats, quantize
from tests.service.responses import error, vectors
from tests.service.server import Server


def post(server: Server, path: str, body: object, media: bytes = BYTES) -> httpx.Response:
    return server.post(path, body, accept=media.decode())


def read_array(response: httpx.Response) -> Floats:
    """Return the array of a binary response."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/octet-stream"
    shape = [int(size) for size in response.headers["x-shape"].split(",")]
    actual: Floats = np.frombuffer(response.content, dtype=response.headers["x-dtype"]).reshape(
        shape
    )
    return actual


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8", "binary", "ubinary"])
def test_bytes_and_npy_are_the_vectors(server: Server, dtype: str) -> None:
    body = {"inputs": ["one", "two words"], "output_dtype": dtype}
    expected = quantize(vectors(server.post("/embed", {"inputs": ["one", "two words"]})), dtype)
    actual = read_array(post(server, "/embed", body))
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)
    response = post(server, "/embed", body, NPY)
    assert response.headers["content-type"] == "application/x-npy"
    loaded = np.load(io.BytesIO(response.content), allow_pickle=False)
    assert loaded.dtype == expected.dtype
    np.testing.assert_array_equal(loaded, expected)


def test_binary_responses_have_token_and_truncation_headers(server: Server) -> None:
    response = post(server, "/embed", {"inputs": ["a", "word " * 600]})
    assert (response.headers["x-tokens"], response.headers["x-truncated"]) == ("259", "1")
    assert int(response.headers["content-length"]) == len(response.content) == 2 * 384 * 4


@pytest.mark.parametrize(
    "field", [{"details": True}, {"partial": True}, {"encoding_format": "base64"}]
)
def test_fields_that_need_json_are_refused_with_bytes(
    server: Server, field: dict[str, object]
) -> None:
    fault = error(post(server, "/embed", {"inputs": "a", **field}), 400)
    assert fault["param"] == next(iter(field))


def test_errors_are_json_for_every_accept_header(server: Server) -> None:
    assert error(post(server, "/embed", {"inputs": []}), 400)["code"] == "no_input"


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        (b"", JSON),
        (b"*/*", JSON),
        (b"text/html, */*;q=0.8", JSON),
        (b"text/html", JSON),
        (b"application/json", JSON),
        (b"application/octet-stream", BYTES),
        (b"Application/Octet-Stream", BYTES),
        (b"application/x-npy", NPY),
        (b"application/x-npy;q=0.9, application/octet-stream;q=0.8", NPY),
        (b"application/octet-stream, application/json", JSON),
        (b"application/octet-stream, application/json;q=0.5", BYTES),
        (b"application/octet-stream, */*", BYTES),
        (b"application/octet-stream;q=0.5, */*", JSON),
        (b"application/octet-stream;q=0, */*;q=0", JSON),
        (b"application/octet-stream;q=x", JSON),
        (b";;,,q=", JSON),
    ],
)
def test_the_preferred_media_type_is_chosen(accept: bytes, media: bytes) -> None:
    assert preferred_media_type(accept) == media


ROWS = np.arange(200_000, dtype=np.float32).reshape(-1, 10)
CONTENTS: dict[str, Any] = {
    "an array": ROWS,
    "one of no rows": ROWS[:0],
    "one of three axes": ROWS.reshape(2, -1, 10),
    "arrays by name": {"cos": ROWS, "sin": ROWS[:3], "positions": np.arange(5), "name": "a"},
    "arrays in a list": [ROWS[:1000], ROWS[1000:1001], ROWS[:0]],
    "items with a row each": {"data": [{"index": i, "vector": ROWS[i]} for i in range(200)]},
    "tokens of texts": [[{"id": i, "text": "a"} for i in range(130)], []],
    "items of items": {"results": [{"tokens": [{"vector": ROWS[0]}] * 99, "dropped": 0}] * 3},
    "JSON already": {"top": [orjson.Fragment(b"[1]")] * 100},
    "nothing": [],
    "texts": ["a"] * 1000,
    "a number": 5,
}


@pytest.mark.parametrize("name", CONTENTS)
def test_a_large_response_has_the_bytes_of_a_small_one(name: str) -> None:
    context = RequestContext("a")
    context.memory.grow(1 << 24)
    large = asyncio.run(dump_response(context, CONTENTS[name]))
    assert (
        large
        == dump(CONTENTS[name])
        == asyncio.run(dump_response(RequestContext("b"), CONTENTS[name]))
    )


def test_a_large_response_does_not_block_the_event_loop() -> None:
    async def run() -> int:
        context, turns = RequestContext("a"), 0
        context.memory.grow(1 << 24)
        dumping = asyncio.create_task(dump_response(context, {"vectors": np.tile(ROWS, (10, 1))}))
        while not dumping.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert asyncio.run(run()) > 10
