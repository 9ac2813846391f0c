"""Arrays as bytes, .npy or JSON, selected by the Accept header."""

import io

import httpx
import numpy as np
import pytest

from embedwell.api.binary_response import BYTES, JSON, NPY, preferred_media_type
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
