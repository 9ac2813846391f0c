"""MaxSim of a model whose vectors of tokens stand next to a dense one: BGE-M3."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedwell_models import Embedder
from embedwell_models.encoder.muvera import Muvera
from embedwell_models.encoder.token_pooling import pool_tokens
from embedwell_models.outputs.names import MULTI
from tests.models.sparse_encoder import write_bge_m3
from tests.service.local_server import local_server
from tests.service.responses import error
from tests.service.server import HttpServer

QUERIES = ["the license of this work", "you and you"]
DOCUMENTS = ["any copyright", "x", "the work and the license, by you", "you"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bge_m3(tmp_path_factory.mktemp("models") / "m3")


@pytest.fixture(scope="module")
def m3(folder: Path) -> Iterator[HttpServer]:
    with local_server(folder, auto_truncate=False) as server:
        yield server


@pytest.fixture(scope="module")
def vectors(folder: Path) -> dict[str, Any]:
    """The vectors of each text's tokens."""
    embedder, texts = Embedder.load(folder, device="cpu", dtype="float32"), QUERIES + DOCUMENTS
    outputs = embedder.outputs(embedder.tokenize(texts), [MULTI])
    return {text: output.multi for text, output in zip(texts, outputs, strict=True)}


@pytest.fixture(scope="module")
def scores(vectors: dict[str, Any]) -> Any:
    """Equation 4 of arXiv 2402.03216: the mean over the query's tokens of the largest product."""
    return np.array(
        [
            [np.mean((vectors[query] @ vectors[document].T).max(axis=1)) for document in DOCUMENTS]
            for query in QUERIES
        ]
    )


def test_similarity_compares_tokens_where_the_request_says_so(m3: HttpServer, scores: Any) -> None:
    body: dict[str, Any] = {"a": QUERIES, "b": DOCUMENTS}
    response = m3.post("/similarity", {**body, "metric": "maxsim"}).json()
    assert response["metric"] == "maxsim"
    np.testing.assert_allclose(response["scores"], scores, atol=1e-5)
    dense = m3.post("/similarity", body).json()
    assert dense["metric"] == "cosine" and not np.allclose(dense["scores"], scores, atol=1e-2)


def test_documents_are_ranked_by_it(m3: HttpServer, scores: Any) -> None:
    results = m3.post("/rerank", {"query": QUERIES[0], "texts": DOCUMENTS}).json()
    assert [result["index"] for result in results] == np.argsort(-scores[0]).tolist()
    np.testing.assert_allclose(
        [result["score"] for result in results], np.sort(scores[0])[::-1], atol=1e-5
    )


def test_pairs_are_scored_by_it(m3: HttpServer, scores: Any) -> None:
    data = m3.post("/score", {"text_1": QUERIES[1], "text_2": DOCUMENTS}).json()["data"]
    np.testing.assert_allclose([pair["score"] for pair in data], scores[1], atol=1e-5)


def test_the_vectors_of_documents_are_pooled(m3: HttpServer, vectors: dict[str, Any]) -> None:
    body: dict[str, Any] = {"inputs": DOCUMENTS, "outputs": ["dense", "multi"]}
    whole, pooled = (m3.post("/embed", body | each).json() for each in ({}, {"pool_factor": 2}))
    for mine, document in zip(pooled["multi"], DOCUMENTS, strict=True):
        np.testing.assert_allclose(mine, pool_tokens(vectors[document], 2), atol=1e-5)
    assert pooled["embeddings"] == whole["embeddings"]
    assert "token_ids" in whole and "token_ids" not in pooled
    queries = {**body, "input_type": "query"}
    whole, pooled = (m3.post("/embed", queries | each).json() for each in ({}, {"pool_factor": 2}))
    assert (pooled["multi"], pooled["token_ids"]) == (whole["multi"], whole["token_ids"])


def test_token_vectors_next_to_dense_ones_are_encoded(
    m3: HttpServer, vectors: dict[str, Any]
) -> None:
    rows = m3.post("/embed", {"inputs": DOCUMENTS, "muvera": {"r_reps": 2}}).json()
    encoder = Muvera(vectors[DOCUMENTS[0]].shape[1], r_reps=2)
    expected = [encoder.document(vectors[document]) for document in DOCUMENTS]
    np.testing.assert_allclose(rows, expected, atol=1e-5)
    pooled = m3.post("/embed", {"inputs": DOCUMENTS, "muvera": {"r_reps": 2}, "pool_factor": 2})
    assert pooled.status_code == 200 and pooled.json() != rows


def test_jinas_routes_return_the_vectors_of_tokens(m3: HttpServer, vectors: dict[str, Any]) -> None:
    body: dict[str, Any] = {"input": DOCUMENTS}
    multivectors = {**body, "return_multivector": True}
    for path, request in [("/v1/multi-vector", body), ("/v1/embeddings", multivectors)]:
        data = m3.post(path, request).json()["data"]
        for document, item in zip(DOCUMENTS, data, strict=True):
            np.testing.assert_allclose(item["embeddings"], vectors[document], atol=1e-5)


def test_the_library_returns_the_same_for_queries_and_documents(
    folder: Path, vectors: dict[str, Any]
) -> None:
    embedder = Embedder.load(folder, device="cpu", dtype="float32")
    for vector, query in zip(embedder.embed_tokens(QUERIES, "query"), QUERIES, strict=True):
        assert np.array_equal(vector, vectors[query])
    (document,) = embedder.embed_tokens(DOCUMENTS[:1])
    assert np.array_equal(document, vectors[DOCUMENTS[0]])


def test_the_dense_vector_stays_what_the_other_routes_return(m3: HttpServer) -> None:
    (vector,) = m3.post("/embed", {"inputs": QUERIES[0]}).json()
    (item,) = m3.post("/v1/embeddings", {"input": QUERIES[0]}).json()["data"]
    assert np.ndim(vector) == 1 and item["embedding"] == vector


def test_vectors_have_no_tokens_to_compare(m3: HttpServer) -> None:
    body = {"a": [[1.0, 2.0]], "b": DOCUMENTS, "metric": "maxsim"}
    assert "must be texts" in error(m3.client.post("/similarity", json=body), 400)["error"]
