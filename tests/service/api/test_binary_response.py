"""How arrays leave: bytes, .npy or JSON, as the client accepts."""

import io

import httpx
import numpy as np
import pytest

from models.vectors import Floats, quantize
from service.api.binary_response import BYTES, JSON, NPY, preferred_media_type
from tests.service.responses import error, vectors
from tests.service.server import Server


def ask(server: Server, path: str, body: object, media: bytes = BYTES) -> httpx.Response:
    return server.post(path, body, accept=media.decode())


def read(answer: httpx.Response) -> Floats:
    """The array of an answer in bytes, from its headers."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/octet-stream"
    shape = [int(size) for size in answer.headers["x-shape"].split(",")]
    found: Floats = np.frombuffer(answer.content, dtype=answer.headers["x-dtype"]).reshape(shape)
    return found


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8", "binary", "ubinary"])
def test_bytes_and_npy_are_the_vectors(server: Server, dtype: str) -> None:
    body = {"inputs": ["one", "two words"], "output_dtype": dtype}
    expected = quantize(vectors(server.post("/embed", {"inputs": ["one", "two words"]})), dtype)
    found = read(ask(server, "/embed", body))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    answer = ask(server, "/embed", body, NPY)
    assert answer.headers["content-type"] == "application/x-npy"
    loaded = np.load(io.BytesIO(answer.content), allow_pickle=False)
    assert loaded.dtype == expected.dtype
    np.testing.assert_array_equal(loaded, expected)


def test_the_truth_is_in_the_headers_of_bytes_too(server: Server) -> None:
    answer = ask(server, "/embed", {"inputs": ["a", "word " * 600]})
    assert (answer.headers["x-tokens"], answer.headers["x-truncated"]) == ("259", "1")
    assert int(answer.headers["content-length"]) == len(answer.content) == 2 * 384 * 4


@pytest.mark.parametrize(
    "field", [{"details": True}, {"partial": True}, {"encoding_format": "base64"}]
)
def test_what_only_json_can_tell_is_refused_beside_bytes(
    server: Server, field: dict[str, object]
) -> None:
    found = error(ask(server, "/embed", {"inputs": "a", **field}), 400)
    assert found["param"] == next(iter(field))


def test_an_error_is_json_whatever_is_accepted(server: Server) -> None:
    assert error(ask(server, "/embed", {"inputs": []}), 400)["code"] == "no_input"


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
def test_the_client_gets_what_it_likes_best(accept: bytes, media: bytes) -> None:
    assert preferred_media_type(accept) == media
