"""GET and POST /positions against a running server."""

import numpy as np
import pytest
from safetensors import safe_open

from models import tables
from tests.service.server import Server
from tests.service.test_embed import error


def test_the_models_own_table_is_the_default(server: Server, minilm_folder: str) -> None:
    with safe_open(f"{minilm_folder}/model.safetensors", framework="np") as checkpoint:
        table = checkpoint.get_tensor("embeddings.position_embeddings.weight")
    found = server.post("/positions", {"positions": [0, 7, 511]}).json()
    assert found["scheme"] == "learned" and found["positions"] == [0, 7, 511]
    np.testing.assert_array_equal(np.array(found["vectors"], dtype=np.float32), table[[0, 7, 511]])


def test_sinusoidal_has_the_width_of_the_model_by_default(server: Server) -> None:
    found = server.post("/positions", {"scheme": "sinusoidal", "count": 3}).json()
    expected = tables.sinusoidal(np.arange(3), 384)
    np.testing.assert_array_equal(np.array(found["vectors"], dtype=np.float32), expected)


def test_rotary_answers_cosine_and_sine_of_each_pair(server: Server) -> None:
    body = {"scheme": "rotary", "positions": [5], "dim": 4, "base": 100}
    found = server.post("/positions", body).json()
    np.testing.assert_allclose(found["cos"], [[np.cos(5), np.cos(0.5)]], rtol=1e-6)
    np.testing.assert_allclose(found["sin"], [[np.sin(5), np.sin(0.5)]], rtol=1e-6)


def test_alibi_answers_slopes_and_the_bias_of_every_pair(server: Server) -> None:
    found = server.post("/positions", {"scheme": "alibi", "heads": 8, "count": 3}).json()
    assert found["slopes"] == [2.0**-power for power in range(1, 9)]
    assert found["bias"][0] == [[0, -0.5, -1], [-0.5, 0, -0.5], [-1, -0.5, 0]]
    default = server.post("/positions", {"scheme": "alibi", "count": 1}).json()
    assert len(default["slopes"]) == 12


def test_relative_answers_the_bucket_of_every_pair(server: Server) -> None:
    body = {"scheme": "relative", "positions": [0, 1, 200], "bidirectional": False}
    assert server.post("/positions", body).json()["buckets"] == [[0, 0, 0], [1, 0, 0], [31, 31, 0]]


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("", {}),
        ("?scheme=sinusoidal&count=4&dim=6&base=500", {"count": 4, "dim": 6, "base": 500}),
        ("?scheme=rotary&positions=0,3,9", {"positions": [0, 3, 9]}),
        (
            "?scheme=relative&buckets=16&bidirectional=false",
            {"buckets": 16, "bidirectional": False},
        ),
    ],
)
def test_a_query_says_the_same_as_a_body(
    server: Server, query: str, body: dict[str, object]
) -> None:
    scheme = query.partition("scheme=")[2].partition("&")[0]
    body = {**body, "scheme": scheme} if scheme else body
    found = server.client.get(f"/positions{query}")
    assert found.status_code == 200, found.text
    assert found.content == server.post("/positions", body).content


@pytest.mark.parametrize(
    "body",
    [
        {"scheme": "rotary", "heads": 8},
        {"scheme": "rotary", "dim": 7},
        {"positions": [512]},
        {"positions": [-1]},
        {"count": 0},
        {"count": 2, "positions": [1]},
        {"scheme": "alibi", "heads": 0},
        {"scheme": "relative", "buckets": 64, "max_distance": 32},
        {"scheme": "relative", "buckets": 3},
        {"scheme": "polar"},
        {"scheme": "learned", "dim": 4},
    ],
)
def test_a_wrong_body_is_refused(server: Server, body: object) -> None:
    assert error(server.post("/positions", body), 400)["message"]
    assert error(server.client.get("/positions?count=many"), 400)["param"] == "count"


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"count": 3}, ["vectors"]),
        ({"scheme": "sinusoidal", "count": 3}, ["vectors"]),
        ({"scheme": "rotary", "count": 3}, ["cos", "sin"]),
        ({"scheme": "alibi", "count": 3}, ["bias"]),
        ({"scheme": "relative", "count": 3}, ["buckets"]),
    ],
)
def test_a_table_is_had_as_bytes(
    server: Server, body: dict[str, object], fields: list[str]
) -> None:
    found = server.post("/positions", body).json()
    expected = np.squeeze([found[field] for field in fields], axis=0 if len(fields) == 1 else ())
    query = "&".join(f"{name}={value}" for name, value in body.items())
    accept = {"accept": "application/octet-stream"}
    for answer in (
        server.post("/positions", body, **accept),
        server.client.get(f"/positions?{query}", headers=accept),
    ):
        shape = [int(size) for size in answer.headers["x-shape"].split(",")]
        table = np.frombuffer(answer.content, dtype=answer.headers["x-dtype"]).reshape(shape)
        np.testing.assert_allclose(table, expected, rtol=1e-6)


@pytest.mark.parametrize("scheme", ["sinusoidal", "rotary"])
def test_angles_that_no_float_holds_are_refused(server: Server, scheme: str) -> None:
    body = {"scheme": scheme, "base": 5e-324, "dim": 64, "count": 2}
    found = error(server.post("/positions", body), 400)
    assert (found["code"], found["param"]) == ("not_finite", "base")
