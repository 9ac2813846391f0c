"""The routes that classify, against sentence-transformers' CrossEncoder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder

from tests.models.cross_encoder import write_cross_encoder
from tests.service.local_server import local_server
from tests.service.responses import error
from tests.service.server import HttpServer

PAIRS = [("the license", "a copyright"), ("you", "any by this")]
LABELS = {"0": "contradiction", "1": "entailment", "2": "neutral"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cross_encoder(tmp_path_factory.mktemp("classifier"), 3, id2label=LABELS)


@pytest.fixture(scope="module")
def classifier(folder: Path) -> Iterator[HttpServer]:
    """A server of a small classifier with three labels."""
    with local_server(folder, served_name="small") as server:
        yield server


@pytest.fixture(scope="module")
def logits(folder: Path) -> np.ndarray[Any, Any]:
    """The logits of PAIRS, as sentence-transformers computes them."""
    return np.asarray(CrossEncoder(str(folder), device="cpu").predict(PAIRS, batch_size=1))


def softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return torch.softmax(torch.from_numpy(x), dim=1).numpy()


def by_label(prediction: list[dict[str, Any]]) -> list[float]:
    """The scores of a prediction, in the order of the model's labels."""
    scores = {item["label"]: item["score"] for item in prediction}
    assert [item["score"] for item in prediction] == sorted(scores.values(), reverse=True)
    return [scores[name] for name in LABELS.values()]


def test_the_root_path_predicts_if_the_model_classifies(classifier: HttpServer) -> None:
    body = {"inputs": [["the license"], ["any", "you"]]}
    assert classifier.post("/", body).json() == classifier.post("/predict", body).json()


def test_predictions_of_pairs_equal_those_of_sentence_transformers(
    classifier: HttpServer, logits: np.ndarray[Any, Any]
) -> None:
    body = {"inputs": [list(pair) for pair in PAIRS]}
    predicted = classifier.post("/predict", body).json()
    np.testing.assert_allclose([*map(by_label, predicted)], softmax(logits), atol=1e-5)
    raw = classifier.post("/predict", {**body, "raw_scores": True}).json()
    np.testing.assert_allclose([*map(by_label, raw)], logits, atol=1e-4)


def test_one_text_one_pair_and_a_list_have_the_shapes_of_tei(classifier: HttpServer) -> None:
    single = classifier.post("/predict", {"inputs": "you"}).json()
    pair = classifier.post("/predict", {"inputs": list(PAIRS[0])}).json()
    assert classifier.post("/predict", {"inputs": ["you"]}).json() == single
    both = classifier.post("/predict", {"inputs": [["you"], list(PAIRS[0])]}).json()
    assert both == [single, pair] and by_label(single) != by_label(pair)


def test_several_labels_can_hold_where_the_config_says_so(
    tmp_path: Path, folder: Path, logits: np.ndarray[Any, Any]
) -> None:
    write_cross_encoder(tmp_path, 3, problem_type="multi_label_classification", id2label=LABELS)
    with local_server(tmp_path) as server:
        predicted = server.post("/predict", {"inputs": [list(pair) for pair in PAIRS]}).json()
    expected = 1 / (1 + np.exp(-logits))
    np.testing.assert_allclose([*map(by_label, predicted)], expected, atol=1e-5)


def test_classes_have_the_shape_of_vllm_and_with_raw_scores_of_infinity(
    classifier: HttpServer,
) -> None:
    vllm = classifier.post("/classify", {"input": "you", "model": "small"}).json()
    (found,) = vllm["data"]
    prediction = classifier.post("/predict", {"inputs": "you"}).json()
    assert found["label"] == prediction[0]["label"] and found["num_classes"] == 3
    np.testing.assert_allclose(found["probs"], by_label(prediction), rtol=1e-6)
    infinity = classifier.post("/classify", {"input": ["you"], "raw_scores": False}).json()
    assert (infinity["object"], infinity["data"]) == ("classify", [prediction])
    raw = classifier.post("/classify", {"input": "you", "use_activation": False}).json()
    assert sum(raw["data"][0]["probs"]) != pytest.approx(1)


def test_token_ids_are_classified_as_their_text(classifier: HttpServer) -> None:
    texts = ["you", "any by this"]
    tokens = classifier.post("/tokenize", {"inputs": texts}).json()
    ids = [[token["id"] for token in row] for row in tokens]
    expected = classifier.post("/classify", {"input": texts}).json()
    response = classifier.post("/classify", {"input": ids, "truncate_prompt_tokens": -1}).json()
    assert (response["data"], response["usage"]) == (expected["data"], expected["usage"])
    [single] = classifier.post("/classify", {"input": ids[0]}).json()["data"]
    assert single == expected["data"][0]
    mixed = {"input": [ids[0], texts[1]], "raw_scores": False}
    infinity = classifier.post("/classify", {**mixed, "input": texts}).json()["data"]
    assert classifier.post("/classify", mixed).json()["data"] == infinity
    refused = error(classifier.post("/classify", {"input": [ids[0], [10_000]]}), 400)
    assert (refused["code"], refused["index"], refused["param"]) == ("unknown_token", 1, "input")
    image = {"input": [{"image": "data:"}]}
    assert error(classifier.post("/classify", image), 400)["param"] == "input"


def test_a_text_may_have_a_maximum_of_tokens(classifier: HttpServer) -> None:
    long, short = "any by " * 60, "any by any"
    expected = classifier.post("/classify", {"input": [short, short]}).json()["data"]
    tokens = classifier.post("/tokenize", {"inputs": long}).json()[0]
    for item in (long, [token["id"] for token in tokens]):
        body = {"input": [item, short], "truncate_prompt_tokens": 5}
        response = classifier.post("/classify", body)
        assert response.json()["data"] == expected and response.headers["x-truncated"] == "1"


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/predict", {"inputs": []}),
        ("/predict", {"inputs": [["a", "b", "c"]]}),
        ("/predict", {"inputs": [["a"], "b"]}),
        ("/predict", {"inputs": ["a", ["b"]]}),
        ("/classify", {"input": []}),
    ],
)
def test_inputs_of_another_shape_are_refused(
    classifier: HttpServer, route: str, body: dict[str, Any]
) -> None:
    error(classifier.post(route, body), 400)


def test_a_classifier_does_not_rerank(classifier: HttpServer) -> None:
    refused = error(classifier.post("/rerank", {"query": "x", "texts": ["y"]}), 400)
    assert refused["code"] == "not_offered" and "3 labels" in refused["message"]
    assert classifier.client.get("/info").json()["task"] == "classify"
