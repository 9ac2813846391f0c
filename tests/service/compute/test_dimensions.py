"""Tests of the dimensions to which vectors may be truncated."""

import numpy as np
import pytest

from embedwell_models.embedder import Embedder
from embedwell_models.errors import DimensionsError
from embedwell_models.hub.sources import DEFAULT
from embedwell_models.vectors import normalize
from tests.conftest import Folder
from tests.service.local_server import local_server
from tests.service.responses import error, vectors
from tests.service.server import HttpServer, error_of


def test_a_truncated_vector_is_normalized_again(server_any_dimensions: HttpServer) -> None:
    full = vectors(
        server_any_dimensions.post("/embed", {"inputs": "matryoshka", "normalize": False})
    )
    for body, expected in (
        ({"dimensions": 64}, normalize(full[:, :64])),
        ({"dimensions": 64, "normalize": False}, full[:, :64]),
    ):
        truncated = vectors(server_any_dimensions.post("/embed", {"inputs": "matryoshka", **body}))
        np.testing.assert_allclose(truncated, expected, atol=1e-7)
    assert server_any_dimensions.client.get("/info").json()["dimensions"] == {
        "full": 384,
        "allowed": "any",
    }


def test_a_vector_of_a_partial_response_is_truncated_as_any_other(
    server_any_dimensions: HttpServer,
) -> None:
    body = {"inputs": ["matryoshka"], "dimensions": 64}
    (expected,) = server_any_dimensions.post("/embed", body).json()
    partial = server_any_dimensions.post("/embed", {**body, "partial": True}).json()
    assert partial["results"][0]["embedding"] == expected and len(expected) == 64


def test_a_model_without_declared_dimensions_is_not_truncated(server: HttpServer) -> None:
    for path, field in (("/embed", "inputs"), ("/v1/embeddings", "input")):
        failure = error(server.post(path, {field: "a", "dimensions": 64}), 400)
        assert (failure["code"], failure["param"]) == ("dimensions_not_offered", "dimensions")
        assert "EMBEDWELL_DIMENSIONS" in failure["message"]
        assert server.post(path, {field: "a", "dimensions": 384}).status_code == 200
    assert server.client.get("/info").json()["dimensions"] == {"full": 384, "allowed": []}


@pytest.mark.parametrize("dimensions", [64, 385])
def test_the_library_refuses_the_same_dimensions(
    server: HttpServer, embedder: Embedder, dimensions: int
) -> None:
    with pytest.raises(DimensionsError) as raised:
        embedder.embed("a", dimensions=dimensions)
    failure = error(server.post("/embed", {"inputs": "a", "dimensions": dimensions}), 400)
    problems = [message.partition(";")[0] for message in (str(raised.value), failure["message"])]
    assert problems[0] == problems[1]  # the rest says how to allow them, here and there


def test_only_the_library_takes_an_empty_list(server: HttpServer, embedder: Embedder) -> None:
    assert error(server.post("/embed", {"inputs": []}), 400)["code"] == "no_input"
    assert embedder.embed([]).shape == (0, 384)


def test_a_model_is_truncated_to_its_declared_dimensions(tiny_bert: Folder) -> None:
    with local_server(tiny_bert(matryoshka_dimensions=[32, 16])) as server:
        full = vectors(server.post("/embed", {"inputs": "the work", "normalize": False}))
        body = {"input": "the work", "dimensions": 16}
        (row,) = server.post("/v1/embeddings", body).json()["data"]
        np.testing.assert_allclose(row["embedding"], normalize(full[:, :16])[0], atol=1e-7)
        failure = error(server.post("/embed", {"inputs": "a", "dimensions": 24}), 400)
        assert "this model has 48 and 16, 32" in failure["message"]


@pytest.mark.parametrize("requested", [64, 385])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": "a"}),
        ("/v2/embed", {"texts": ["a"], "model": DEFAULT, "input_type": "clustering"}),
    ],
)
def test_an_error_names_the_field_of_the_request(
    server: HttpServer, requested: int, path: str, body: dict[str, object]
) -> None:
    response = server.post(path, {**body, "output_dimension": requested})
    assert response.status_code == 400 and response.headers["x-tokens"] == "0"  # before any work
    assert error_of(response)["param"] == "output_dimension"
