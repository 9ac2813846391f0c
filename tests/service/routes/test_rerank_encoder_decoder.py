"""Reranking by an encoder and a decoder: every route, windows and refusals."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.kalm_reranker import Published, write_kalm_reranker
from tests.service.local_server import local_server
from tests.service.responses import error
from tests.service.server import HttpServer

QUERY = "who may copy the license?"
DOCUMENTS = ["a copyright", "you?", "the license of this work", "any work " * 9]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_kalm_reranker(tmp_path_factory.mktemp("kalm"))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[HttpServer]:
    with local_server(folder, served_name="kalm") as server:
        yield server


def relevance(logits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(1 / (1 + np.exp(-logits)))


def test_every_route_has_the_published_scores(server: HttpServer, folder: Path) -> None:
    published = Published(folder)
    pairs = [(QUERY, document) for document in DOCUMENTS]
    told = published.scores(pairs, "Find the opposite.")
    body = {"query": QUERY, "documents": DOCUMENTS, "instruction": "Find the opposite."}
    for path, extra in (("/rerank", {}), ("/v1/rerank", {}), ("/v2/rerank", {"model": "kalm"})):
        results = server.post(path, {**body, **extra}).json()["results"]
        scores = {each["index"]: each["relevance_score"] for each in results}
        np.testing.assert_allclose([scores[i] for i in range(4)], relevance(told), atol=1e-5)
    scored = {"text_1": QUERY, "text_2": DOCUMENTS}
    of_pairs = [item["score"] for item in server.post("/score", scored).json()["data"]]
    np.testing.assert_allclose(of_pairs, relevance(published.scores(pairs)), atol=1e-5)
    passages = {"query": {"text": QUERY}, "passages": [{"text": text} for text in DOCUMENTS]}
    rankings = server.post("/v1/ranking", passages).json()["rankings"]
    logits = {each["index"]: each["logit"] for each in rankings}
    expected = published.scores(pairs)
    np.testing.assert_allclose([logits[i] for i in range(4)], expected, atol=1e-4)


def test_a_long_document_is_cut_or_read_in_windows(server: HttpServer) -> None:
    body = {"query": QUERY, "documents": ["any work " * 900], "details": True}
    (cut,) = server.post("/rerank", body).json()["inputs"]
    assert cut["truncated"] and cut["dropped"] > 0
    (windowed,) = server.post("/rerank", {**body, "on_overflow": "max"}).json()["inputs"]
    assert windowed["windows"] > 1 and windowed["dropped"] == 0


def test_other_inputs_are_refused(server: HttpServer) -> None:
    assert error(server.post("/v1/embeddings", {"input": "a", "model": "kalm"}), 400)
    response = server.post("/predict", {"inputs": [["a", "b"], ["a"]]})
    assert (error(response, 400)["code"], error(response, 400)["index"]) == ("not_offered", 1)
