"""The routes that rerank, for a model with one vector for each text."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Folder
from tests.models.jina_adapters import write_sentence_model
from tests.models.sparse_encoder import write_splade
from tests.service.local_server import local_server
from tests.service.responses import error
from tests.service.routes.committed import check
from tests.service.server import HttpServer, Server

PROMPTS = {"query": "query: ", "passage": "passage: "}
QUERY = "the license of this work"
DOCUMENTS = ["a copyright", "you", "the license of this work", "you", "any by such"]
LONG = "any by " * 60


@pytest.fixture(scope="module")
def dense(tiny_bert: Folder) -> Iterator[HttpServer]:
    """A server of a small model with prompts, which does not truncate by default."""
    folder = tiny_bert({"config_sentence_transformers.json": {"prompts": PROMPTS}})
    with local_server(folder, served_name="tiny", auto_truncate=False) as server:
        yield server


@pytest.fixture(scope="module")
def cosines(dense: HttpServer) -> np.ndarray[Any, Any]:
    """The cosine of the query with each of DOCUMENTS, from their vectors with prompts."""
    query = embed(dense, [QUERY], input_type="query", normalize=False)
    documents = embed(dense, DOCUMENTS, input_type="document", normalize=False)
    lengths = np.linalg.norm(query) * np.linalg.norm(documents, axis=1)
    return np.asarray((documents @ query[0]) / lengths)


def embed(server: HttpServer, texts: list[str], **fields: object) -> np.ndarray[Any, Any]:
    return np.array(server.post("/embed", {"inputs": texts, **fields}).json(), dtype=np.float64)


@pytest.mark.parametrize(
    ("path", "body", "results", "score"),
    [
        ("/rerank", {"query": QUERY, "texts": DOCUMENTS}, None, "score"),
        ("/rerank", {"query": QUERY, "texts": DOCUMENTS, "raw_scores": True}, None, "score"),
        ("/rerank", {"query": QUERY, "documents": DOCUMENTS}, "results", "relevance_score"),
        ("/v1/rerank", {"query": QUERY, "documents": DOCUMENTS}, "data", "relevance_score"),
        (
            "/v1/reranking",
            {"query": QUERY, "documents": DOCUMENTS, "use_activation": False},
            "results",
            "relevance_score",
        ),
        (
            "/v2/rerank",
            {"model": "tiny", "query": QUERY, "documents": DOCUMENTS},
            "results",
            "relevance_score",
        ),
        (
            "/v1/ranking",
            {"query": {"text": QUERY}, "passages": [{"text": text} for text in DOCUMENTS]},
            "rankings",
            "logit",
        ),
    ],
    ids=str,
)
def test_documents_are_ranked_by_their_cosine_with_the_query(  # noqa: PLR0913, PLR0917
    dense: HttpServer,
    cosines: np.ndarray[Any, Any],
    path: str,
    body: dict[str, Any],
    results: str | None,
    score: str,
) -> None:
    response = dense.post(path, body)
    assert response.status_code == 200, response.text
    check(response, "post", "/rerank" if path.startswith("/v1/rerank") else path)
    ranks = response.json() if results is None else response.json()[results]
    assert [rank["index"] for rank in ranks] == np.argsort(-cosines, kind="stable").tolist()
    by_index = {rank["index"]: rank[score] for rank in ranks}
    np.testing.assert_allclose([by_index[index] for index in range(5)], cosines, atol=1e-6)
    assert by_index[1] == by_index[3], "which are the same text"


def test_weaviates_scores_are_cosines(dense: HttpServer, cosines: np.ndarray[Any, Any]) -> None:
    body = {"query": QUERY, "documents": DOCUMENTS, "property": "text"}
    scores = [item["score"] for item in dense.post("/rerank", body).json()["scores"]]
    np.testing.assert_allclose(scores, cosines, atol=1e-6)


@pytest.mark.parametrize("path", ["/score", "/v1/score"])
def test_pairs_are_scored_in_their_order(
    dense: HttpServer, cosines: np.ndarray[Any, Any], path: str
) -> None:
    response = dense.post(path, {"text_1": QUERY, "text_2": DOCUMENTS})
    check(response, "post", "/score")
    data = response.json()["data"]
    np.testing.assert_allclose([item["score"] for item in data], cosines, atol=1e-6)
    both = {"queries": ["you", QUERY], "documents": ["you", DOCUMENTS[0]]}
    pairs = dense.post(path, both).json()["data"]
    assert pairs[1]["score"] == data[0]["score"], "next to any other pair"


def test_a_text_is_read_once_and_counted_once(dense: HttpServer) -> None:
    response = dense.post("/rerank", {"query": QUERY, "texts": ["you", "you", "you"]})
    tokens = [
        int(dense.post("/embed", {"inputs": text, "input_type": role}).headers["x-tokens"])
        for text, role in ((QUERY, "query"), ("you", "document"))
    ]
    assert int(response.headers["x-tokens"]) == sum(tokens)


def test_details_describe_the_documents(dense: HttpServer) -> None:
    body = {"query": "you", "documents": [LONG, "any by"], "details": True}
    first, second = dense.post("/rerank", body).json()["inputs"]
    assert first["truncated"] and first["tokens"] == 64 and not second["truncated"]


def test_long_texts_are_truncated_or_refused_by_their_index(dense: HttpServer) -> None:
    body = {"query": "you", "documents": ["you", LONG]}
    assert dense.post("/v1/rerank", body).headers["x-truncated"] == "1"
    refused = error(dense.post("/rerank", {"query": "you", "texts": ["you", LONG]}), 400)
    assert (refused["code"], refused["index"]) == ("input_too_long", 1)
    refused = error(dense.post("/rerank", {"query": LONG, "texts": ["you"]}), 400)
    assert refused["code"] == "input_too_long"


def test_a_limit_of_each_document_counts_its_own_tokens(dense: HttpServer) -> None:
    body = {"query": "you", "documents": ["any by any by"], "max_tokens_per_doc": 2}
    body["return_documents"] = False
    cut = dense.post("/rerank", body).json()["results"]
    assert cut == dense.post("/rerank", {**body, "documents": ["any by"]}).json()["results"]


def test_each_text_may_have_a_maximum_of_tokens(dense: HttpServer) -> None:
    limit = {"truncate_prompt_tokens": 20}
    vectors = []
    for role in ("query", "document"):
        body = {"input": LONG, "input_type": role, **limit}
        [data] = dense.post("/v1/embeddings", body).json()["data"]
        vectors.append(data["embedding"])
    response = dense.post("/score", {"text_1": LONG, "text_2": LONG, **limit})
    assert (response.headers["x-tokens"], response.headers["x-truncated"]) == ("40", "2")
    assert response.json()["data"][0]["score"] == pytest.approx(np.dot(*vectors), abs=1e-6)
    short = {"text_1": "you", "text_2": "you"}
    whole = dense.post("/score", short).json()["data"]
    for tokens in (-1, 64, 100_000):
        body = {**short, "truncate_prompt_tokens": tokens}
        assert dense.post("/score", body).json()["data"] == whole
    refused = error(dense.post("/score", {**short, "truncate_prompt_tokens": 2}), 400)
    assert refused["param"] == "truncate_prompt_tokens"


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"on_overflow": "max"}, "invalid_request", "on_overflow"),
        ({"instruction": "Find the license."}, "not_offered", "instruction"),
    ],
)
def test_options_that_only_other_models_have_are_refused(
    dense: HttpServer, fields: dict[str, str], code: str, param: str
) -> None:
    refused = error(dense.post("/rerank", {"query": "you", "texts": ["you"], **fields}), 400)
    assert (refused["code"], refused["param"]) == (code, param)


def test_info_tells_what_a_score_is(dense: HttpServer) -> None:
    info = dense.client.get("/info").json()
    assert (info["task"], info["rerank_score"]) == ("embed", "cosine")


def test_a_sparse_model_does_not_rerank(tmp_path: Path) -> None:
    write_splade(tmp_path / "model")
    with local_server(tmp_path / "model") as server:
        refused = error(server.post("/rerank", {"query": "you", "texts": ["you"]}), 400)
        assert refused["code"] == "not_offered" and "dense" in refused["message"]
        assert server.client.get("/info").json()["rerank_score"] is None


@pytest.mark.full
def test_tasks_for_queries_and_documents_rank_together(tmp_path: Path) -> None:
    folder = write_sentence_model(tmp_path / "jina")
    settings: dict[str, Any] = {"adapter": "all", "keep": "on_demand", "served_name": "jina"}
    with Server(tmp_path / "log", model=folder, **settings) as server:

        def scores(model: str, query_task: str, document_task: str) -> None:
            query = embed(server, [QUERY], task=query_task)
            expected = embed(server, DOCUMENTS, task=document_task) @ query[0]
            body = {"model": model, "text_1": QUERY, "text_2": DOCUMENTS}
            data = server.post("/score", body).json()["data"]
            np.testing.assert_allclose([item["score"] for item in data], expected, atol=1e-5)

        scores("jina", "retrieval.query", "retrieval.passage")
        scores("jina:retrieval.passage", "retrieval.query", "retrieval.passage")
        scores("jina:text-matching", "text-matching", "text-matching")
