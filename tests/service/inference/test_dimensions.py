"""Tests of the dimensions to which vectors may be truncated."""

from collections.abc import Collection

import numpy as np
import pytest

from embedwell.errors import BadRequest
from embedwell.inference.dimensions import AllowedDimensions
from embedwell_models.errors import ModelError
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


def test_a_model_without_declared_dimensions_is_not_truncated(server: HttpServer) -> None:
    for path, field in (("/embed", "inputs"), ("/v1/embeddings", "input")):
        failure = error(server.post(path, {field: "a", "dimensions": 64}), 400)
        assert (failure["code"], failure["param"]) == ("dimensions_not_offered", "dimensions")
        assert "EMBEDWELL_DIMENSIONS" in failure["message"]
        assert server.post(path, {field: "a", "dimensions": 384}).status_code == 200
    assert server.client.get("/info").json()["dimensions"] == {"full": 384, "allowed": []}


def test_a_model_is_truncated_to_its_declared_dimensions(tiny_bert: Folder) -> None:
    with local_server(tiny_bert(matryoshka_dimensions=[32, 16])) as server:
        full = vectors(server.post("/embed", {"inputs": "the work", "normalize": False}))
        body = {"input": "the work", "dimensions": 16}
        (row,) = server.post("/v1/embeddings", body).json()["data"]
        np.testing.assert_allclose(row["embedding"], normalize(full[:, :16])[0], atol=1e-7)
        failure = error(server.post("/embed", {"inputs": "a", "dimensions": 24}), 400)
        assert "this model has 48 and 16, 32" in failure["message"]


@pytest.mark.parametrize(
    ("setting", "declared", "allowed"),
    [
        ("declared", (), set[int]()),
        ("declared", (2, 4), {2, 4}),
        ("declared", range(1, 9), set(range(1, 9))),
        ("any", (2, 4), set(range(1, 9))),
        ("none", (2, 4), set[int]()),
        ("3,5", (2, 4), {3, 5}),
    ],
)
def test_the_setting_overrides_the_declared_dimensions(
    setting: str, declared: Collection[int], allowed: set[int]
) -> None:
    dimensions = AllowedDimensions.from_setting(setting, 8, declared)
    for requested in range(1, 8):
        if requested in allowed:
            dimensions.check(requested)
        else:
            with pytest.raises(BadRequest):
                dimensions.check(requested)
    dimensions.check(None)
    dimensions.check(8)
    with pytest.raises(BadRequest, match="dimensions is 9, but the model has 8"):
        dimensions.check(9)


@pytest.mark.parametrize(("setting", "wrong"), [("0", 0), ("4,9", 9)])
def test_impossible_dimensions_are_refused_at_the_start(setting: str, wrong: int) -> None:
    with pytest.raises(ModelError, match=f"dimensions: {wrong} is not between 1 and 8"):
        AllowedDimensions.from_setting(setting, 8, ())


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
