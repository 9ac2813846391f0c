"""Reranking by a language model: its instruction, and its format in every route."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import CrossEncoder

from tests.models.cross_encoder import write_cross_encoder
from tests.models.decoder_reranker import token_id, write_layout, write_reranker
from tests.service.local_server import local_server
from tests.service.responses import error
from tests.service.server import HttpServer

QUERY = "the license of this work"
DOCUMENTS = ["a copyright", "you?", "the license of this work", "any by " * 200]


@pytest.fixture(scope="module")
def generative_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_reranker(tmp_path_factory.mktemp("generative"))
    return write_layout(folder, (token_id(folder, "yes"), token_id(folder, "no")))


@pytest.fixture(scope="module")
def generative(generative_folder: Path) -> Iterator[HttpServer]:
    with local_server(generative_folder, served_name="small") as server:
        yield server


def assert_ranked(results: list[dict[str, Any]], expected: np.ndarray[Any, Any]) -> None:
    scores = {result["index"]: result["relevance_score"] for result in results}
    np.testing.assert_allclose([scores[i] for i in range(len(expected))], expected, atol=1e-5)


def test_the_instruction_of_a_request_reaches_the_model(
    generative: HttpServer, generative_folder: Path
) -> None:
    model = CrossEncoder(str(generative_folder), device="cpu")
    pairs = [(QUERY, text) for text in DOCUMENTS]
    plain = np.asarray(model.predict(pairs, batch_size=1))
    told = np.asarray(model.predict(pairs, batch_size=1, prompt="Find the opposite."))
    assert abs(plain - told).max() > 0.01
    body = {"query": QUERY, "documents": DOCUMENTS}
    assert_ranked(generative.post("/rerank", body).json()["results"], plain)
    instructed = {**body, "instruction": "Find the opposite."}
    response = generative.post("/v1/rerank", instructed).json()
    assert_ranked(response["results"], told)
    response = generative.post("/v2/rerank", {**instructed, "model": "small"}).json()
    assert_ranked(response["results"], told)
    scored = {"text_1": QUERY, "text_2": DOCUMENTS, "instruction": "Find the opposite."}
    scores = [item["score"] for item in generative.post("/score", scored).json()["data"]]
    np.testing.assert_allclose(scores, told, atol=1e-5)


def test_windows_of_a_document_keep_the_format(generative: HttpServer) -> None:
    body = {"query": QUERY, "documents": ["any by " * 300], "on_overflow": "max", "details": True}
    (described,) = generative.post("/rerank", body).json()["inputs"]
    assert described["windows"] > 1 and described["dropped"] == 0


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"instruction": "any work " * 100}, "prompt_too_long"),
        ({"instruction": ""}, "invalid_request"),
        ({"instruction": "x" * 8193}, "invalid_request"),
    ],
    ids=["long", "empty", "longer"],
)
def test_an_instruction_that_cannot_be_read_is_refused(
    generative: HttpServer, body: dict[str, Any], code: str
) -> None:
    response = generative.post("/rerank", {"query": QUERY, "documents": DOCUMENTS, **body})
    assert (error(response, 400)["code"], error(response, 400)["param"]) == (code, "instruction")


def test_a_model_without_a_format_takes_no_instruction(tmp_path: Path) -> None:
    body = {"query": QUERY, "documents": DOCUMENTS, "instruction": "Find the opposite."}
    with local_server(write_cross_encoder(tmp_path)) as server:
        response = server.post("/rerank", body)
    refusal = error(response, 400)
    assert (refusal["code"], refusal["param"]) == ("not_offered", "instruction")


def test_a_text_alone_is_not_read_in_a_format(generative: HttpServer) -> None:
    response = generative.post("/predict", {"inputs": [["a", "b"], ["a"]]})
    assert (error(response, 400)["code"], error(response, 400)["index"]) == ("not_offered", 1)


def test_many_documents_are_tokenized_in_groups(generative: HttpServer) -> None:
    documents = [f"any {number}" for number in range(300)]
    body = {"query": QUERY, "texts": documents, "raw_scores": True}
    together = {r["index"]: r["score"] for r in generative.post("/rerank", body).json()}
    alone = generative.post("/rerank", {**body, "texts": [documents[299]]}).json()
    assert together[299] == alone[0]["score"]
