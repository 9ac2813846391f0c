"""Voyage's route for texts and images, for a model of texts."""

import base64

import numpy as np
import pytest

from tests.service.responses import error, vectors
from tests.service.routes.committed import check
from tests.service.server import HttpServer

PATH = "/v1/multimodalembeddings"
TEXTS = ["red", "a longer text"]
INPUTS = [{"content": [{"type": "text", "text": text}]} for text in TEXTS]


def test_texts_have_the_vectors_of_embed(server: HttpServer) -> None:
    response = server.post(PATH, {"inputs": INPUTS, "input_type": None})
    check(response, "post", PATH)
    content = response.json()
    expected = vectors(server.post("/embed", {"inputs": TEXTS}))
    found = np.array([item["embedding"] for item in content["data"]], dtype=np.float32)
    assert found.tobytes() == expected.tobytes()
    tokens = int(response.headers["x-tokens"])
    assert content["usage"] == {
        **{"text_tokens": tokens, "total_tokens": tokens},
        **{"image_pixels": 0, "video_pixels": 0},
    }


@pytest.mark.parametrize("name", ["encoding_format", "output_encoding"])
def test_vectors_come_in_base64(server: HttpServer, name: str) -> None:
    content = server.post(PATH, {"inputs": INPUTS, name: "base64"}).json()
    found = b"".join(base64.b64decode(item["embedding"]) for item in content["data"])
    assert found == vectors(server.post("/embed", {"inputs": TEXTS})).tobytes()


def test_output_dtype_selects_the_numbers(server: HttpServer) -> None:
    content = server.post(PATH, {"inputs": INPUTS, "output_dtype": "int8"}).json()
    expected = server.post("/embed", {"inputs": TEXTS, "output_dtype": "int8"}).json()
    assert [item["embedding"] for item in content["data"]] == expected


def test_truncation_false_refuses_a_long_text(server: HttpServer) -> None:
    inputs = [*INPUTS, {"content": [{"type": "text", "text": "word " * 600}]}]
    assert server.post(PATH, {"inputs": inputs}).headers["x-truncated"] == "1"
    fault = error(server.post(PATH, {"inputs": inputs, "truncation": False}), 400)
    assert (fault["code"], fault["param"], fault["index"]) == ("input_too_long", "inputs", 2)


def test_another_kind_of_part_is_refused(server: HttpServer) -> None:
    part = {"type": "video_url", "video_url": "data:video/mp4;base64,AAAA"}
    fault = error(server.post(PATH, {"inputs": [{"content": [part]}]}), 400)
    assert (fault["param"], fault["index"]) == ("inputs", 0)
    assert "'video_url'" in fault["message"] and "'image_base64'" in fault["message"]


def test_an_image_is_refused_by_a_model_of_texts(server: HttpServer) -> None:
    part = {"type": "image_base64", "image_base64": "data:image/png;base64,AAAA"}
    fault = error(server.post(PATH, {"inputs": [*INPUTS, {"content": [part]}]}), 400)
    assert (fault["code"], fault["param"], fault["index"]) == ("not_offered", "inputs", 2)


def test_no_inputs_are_refused(server: HttpServer) -> None:
    assert error(server.post(PATH, {"inputs": []}), 400)["code"] == "no_input"


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/v1/embeddings", {"input": "x", "truncation": True, "output_dimension": 9999}),
        ("/v1/embeddings", {"input": "x", "truncation": "yes"}),
        ("/v1/rerank", {"query": "x", "documents": ["y"], "top_k": -1}),
        ("/v1/multimodalembeddings", {"inputs": 7}),
    ],
)
def test_errors_have_no_object_that_older_clients_cannot_read(
    server: HttpServer, route: str, body: dict[str, object]
) -> None:
    response = server.post(route, body)
    content = response.json()
    assert response.status_code == 400 and isinstance(content["detail"], str)
    assert "error" not in content and content["code"] == error(response, 400)["code"]


def test_errors_of_other_clients_keep_the_object_of_openai(server: HttpServer) -> None:
    content = server.post("/v1/embeddings", {"input": "x", "dimensions": 9999}).json()
    assert content["error"]["message"] == content["detail"] and content["code"] == 400
