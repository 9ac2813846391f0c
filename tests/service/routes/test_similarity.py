"""POST /similarity against a running server."""

import numpy as np
import pytest
from sentence_transformers import util

from embedwell_models import Embedder
from tests.conftest import Folder
from tests.service.local_server import local_server
from tests.service.responses import error
from tests.service.server import HttpServer

LONG, UNKNOWN = "y " * 300, "unknown_prompt"
CATS, CAR = ["A cat sleeps.", "A kitten naps."], "The car is red."
REFERENCE = {
    "cosine": util.cos_sim,
    "dot": util.dot_score,
    "euclidean": util.euclidean_sim,
    "manhattan": util.manhattan_sim,
}


def test_one_sentence_against_many_is_teis_shape(server: HttpServer, embedder: Embedder) -> None:
    inputs = {"source_sentence": CATS[0], "sentences": [CATS[1], CAR]}
    content = server.post("/similarity", {"inputs": inputs}).json()
    vectors = embedder.embed([*CATS, CAR])
    np.testing.assert_allclose(content, vectors[0] @ vectors[1:].T, atol=1e-6)
    assert content[0] > 0.5 > content[1]


def test_parameters_of_tei_are_honoured(server: HttpServer) -> None:
    inputs = {"source_sentence": "a " * 300, "sentences": ["b"]}
    body = {"inputs": inputs, "parameters": {"truncate": False}}
    assert error(server.post("/similarity", body), 400)["code"] == "input_too_long"
    body = {"inputs": inputs, "parameters": {"truncate": True, "truncation_direction": "left"}}
    assert server.post("/similarity", body).status_code == 200


def test_parameters_apply_to_a_and_b(server: HttpServer) -> None:
    sides = {"a": "x", "b": LONG}
    for option, code in ({"truncate": False}, "input_too_long"), ({"prompt_name": "n"}, UNKNOWN):
        body = {**sides, "parameters": option}
        assert error(server.post("/similarity", body), 400)["code"] == code
    body = {**sides, "parameters": {"on_overflow": "start"}}
    assert server.post("/similarity", body).content == (
        server.post("/similarity", {**sides, "on_overflow": "start"}).content
    )
    body = {**sides, "parameters": {"truncate": True}, "prompt": "x"}
    assert error(server.post("/similarity", body), 400)["param"] == "prompt"


@pytest.mark.parametrize(
    ("body", "where", "index"),
    [
        ({"a": ["x"], "b": ["y", LONG]}, "b.1", 1),
        ({"a": ["x", LONG], "b": [[1.0]]}, "a.1", 1),
        ({"a": [[1.0], [2.0]], "b": [LONG]}, "b.0", 0),
        ({"a": LONG, "b": ["y"]}, "a", None),
        (
            {"inputs": {"source_sentence": "x", "sentences": ["y", LONG]}},
            "inputs.sentences.1",
            1,
        ),
        (
            {"inputs": {"source_sentence": LONG, "sentences": ["y"]}},
            "inputs.source_sentence",
            None,
        ),
    ],
)
def test_an_error_names_the_path_of_the_text(
    server: HttpServer, body: dict[str, object], where: str, index: int | None
) -> None:
    fault = error(server.post("/similarity", {**body, "truncate": False}), 400)
    assert (fault["code"], fault["index"]) == ("input_too_long", index)
    assert fault["message"].count(f"302 tokens in {where};") == 1
    assert fault["param"] == where.partition(".")[0]


@pytest.mark.parametrize("metric", REFERENCE)
def test_every_metric_is_that_of_sentence_transformers(
    server: HttpServer, embedder: Embedder, metric: str
) -> None:
    vectors = embedder.embed([*CATS, CAR])
    body = {"a": CATS, "b": [CAR], "metric": metric}
    content = server.post("/similarity", body).json()
    assert content["metric"] == metric
    expected = REFERENCE[metric](vectors[:2], vectors[2:])
    np.testing.assert_allclose(content["scores"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("normalized", [True, False])
def test_vectors_have_unit_length_where_the_model_says_so(
    tiny_bert: Folder, normalized: bool
) -> None:
    module = "sentence_transformers.models."
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": f"{module}Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{module}Pooling"},
        {"idx": 2, "name": "2", "path": "", "type": f"{module}Normalize"},
    ]
    files = {"1_Pooling/config.json": {"pooling_mode": "mean"}}
    folder = tiny_bert({**files, "modules.json": modules[: 2 + normalized]})
    with local_server(folder) as server:
        body = {"a": "the work", "b": "the work", "metric": "dot"}
        ((product,),) = server.post("/similarity", body).json()["scores"]
    assert (abs(product - 1) < 1e-5) is normalized


def test_vectors_can_be_compared_with_texts_and_with_vectors(server: HttpServer) -> None:
    (vector,) = server.post("/embed", {"inputs": CAR}).json()
    content = server.post("/similarity", {"a": CAR, "b": [vector]}).json()
    assert content["scores"] == [[pytest.approx(1, abs=1e-6)]]
    content = server.post("/similarity", {"a": [[1, 0], [1, 1]], "b": [[0, 2], [3, 0]]}).json()
    half = pytest.approx(0.5**0.5)
    assert content["scores"] == [[0, 1], [half, half]]


def test_pairwise_compares_the_first_with_the_first(server: HttpServer) -> None:
    body = {"a": CATS, "b": [CAR, CAR], "mode": "pairwise"}
    matrix = server.post("/similarity", {**body, "mode": "matrix"}).json()["scores"]
    pairs = server.post("/similarity", body).json()["scores"]
    np.testing.assert_allclose(pairs, np.diag(matrix), atol=1e-6)


def test_top_k_names_the_closest_first(server: HttpServer) -> None:
    body = {"a": CATS[0], "b": [CAR, CATS[1], CATS[0]], "top_k": 2}
    (best,) = server.post("/similarity", body).json()["top"]
    assert [entry["index"] for entry in best] == [2, 1]
    assert best[0]["score"] == pytest.approx(1, abs=1e-6) and best[1]["score"] < 1


def test_details_describe_each_text(server: HttpServer) -> None:
    short, cut = (
        {"tokens": 3, "truncated": False, "dropped": 0},
        {"tokens": 256, "truncated": True, "dropped": 46},
    )
    body = {"a": ["x", "y " * 300], "b": ["z"], "details": True}
    content = server.post("/similarity", body).json()
    assert content["inputs"] == {"a": [short, cut], "b": [short]}
    assert content["usage"] == {"texts": 3, "tokens": 262}
    assert content["prompt"] == {"name": None, "text": ""} and content["timing"]["total_us"] > 0
    plain = server.post("/similarity", {**body, "details": False}).json()
    assert plain == {"metric": "cosine", "scores": content["scores"]}
    inputs = {"source_sentence": "x", "sentences": ["y " * 300, "z"]}
    content = server.post("/similarity", {"inputs": inputs, "details": True}).json()
    assert content["inputs"] == {"source_sentence": short, "sentences": [cut, short]}
    assert content["scores"] == server.post("/similarity", {"inputs": inputs}).json()
    body = {"a": [[1.0, 2.0]], "b": [[3.0, 4.0]], "details": True}
    assert server.post("/similarity", body).json()["inputs"] == {}


@pytest.mark.parametrize("options", [{}, {"parameters": {"truncate": True}}], ids=str)
def test_details_count_all_dropped_tokens_of_a_very_long_text(
    server: HttpServer, options: dict[str, object]
) -> None:
    cut = {"tokens": 256, "truncated": True, "dropped": 20_002 - 256}
    inputs = {"source_sentence": "y " * 20_000, "sentences": ["z", "y " * 20_000]}
    content = server.post("/similarity", {"inputs": inputs, "details": True, **options}).json()
    assert content["inputs"]["source_sentence"] == content["inputs"]["sentences"][1] == cut
    body = {"a": "y " * 20_000, "b": "z", "details": True, **options}
    assert server.post("/similarity", body).json()["inputs"]["a"] == [cut]


def test_long_texts_can_be_the_mean_of_their_windows(server: HttpServer) -> None:
    body = {"a": "y " * 300, "b": "y " * 300, "on_overflow": "mean", "details": True}
    content = server.post("/similarity", body).json()
    assert content["inputs"]["a"] == [
        {"tokens": 304, "truncated": False, "dropped": 0, "windows": 2}
    ]
    assert content["scores"] == [[pytest.approx(1)]]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"inputs": {"source_sentence": "x", "sentences": ["y"]}, "top_k": 1},
        {"inputs": {"source_sentence": "x", "sentences": ["y"]}, "mode": "pairwise"},
        {
            "inputs": {"source_sentence": "x", "sentences": ["y"]},
            "parameters": {"truncate": True},
            "truncate": True,
        },
        {"a": [[1e300]], "b": [[1.0]]},
        {"a": "x"},
        {"inputs": {"source_sentence": "x", "sentences": ["y"]}, "a": "z"},
        {"inputs": {"source_sentence": "x"}},
        {"inputs": {"source_sentence": "x", "sentences": []}},
        {"a": "x", "b": [[1.0, 2.0]]},
        {"a": [[1.0], [1.0, 2.0]], "b": "x"},
        {"a": [[]], "b": [[]]},
        {"a": [], "b": "x"},
        {"a": [[1.0, None]], "b": "x"},
        {"a": ["x", "y"], "b": "z", "mode": "pairwise"},
        {"a": ["x"], "b": ["z"], "mode": "pairwise", "top_k": 1},
        {"a": "x", "b": "y", "metric": "hamming"},
    ],
)
def test_an_invalid_body_is_refused(server: HttpServer, body: object) -> None:
    assert error(server.post("/similarity", body), 400)["message"]


@pytest.mark.parametrize("field", ["a", "b"])
def test_an_empty_side_is_refused_by_name(server: HttpServer, field: str) -> None:
    fault = error(server.post("/similarity", {"a": "x", "b": "y", field: []}), 400)
    assert (fault["code"], fault["param"]) == ("no_input", field)


def test_an_empty_vector_is_refused_by_name(server: HttpServer) -> None:
    for a, index in (([[]], 0), ([[1.0], []], 1)):
        fault = error(server.post("/similarity", {"a": a, "b": [[1.0]]}), 400)
        assert fault["message"].startswith(f"a[{index}] is empty; ") and fault["index"] == index


def test_numbers_that_are_not_finite_are_refused(server: HttpServer) -> None:
    content = b'{"a": [[1.0], [1e999]], "b": [[1.0]]}'
    fault = error(server.client.post("/similarity", content=content), 400)
    assert (fault["param"], fault["index"]) == ("a", 1)


def test_a_score_beyond_float32_is_refused(server: HttpServer) -> None:
    long = [[3e38, 3e38]]
    for metric in ("dot", "euclidean", "manhattan"):
        body = {"a": long, "b": [[-3e38, -3e38]], "metric": metric}
        assert error(server.post("/similarity", body), 400)["code"] == "not_finite"
    body = {"a": long, "b": [[2e38, 2e38]]}
    assert server.post("/similarity", body).json()["scores"] == [[pytest.approx(1)]]
