"""Reranking by a model that reads all documents of a query together."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.families.exact import Expected, assert_near, exactly
from tests.models.listwise_reranker import DOCUMENT, Published, write_listwise_reranker
from tests.service.local_server import local_server
from tests.service.responses import error
from tests.service.server import HttpServer

QUERY = "the license of this work"
DOCUMENTS = ["a copyright", "", f"you{DOCUMENT}?", "the license of this work", "any by " * 200]
BODY = {"query": QUERY, "documents": DOCUMENTS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_listwise_reranker(tmp_path_factory.mktemp("listwise"))


@pytest.fixture(scope="module")
def published(folder: Path) -> Published:
    return Published(folder)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[HttpServer]:
    with local_server(folder, served_name="small", max_texts=300, max_tokens=40_000) as server:
        yield server


def scores(results: list[dict[str, Any]], name: str = "relevance_score") -> list[float]:
    ordered = sorted(results, key=lambda result: result["index"])
    return [result[name] for result in ordered]


def assert_close(found: list[float], expected: Expected) -> None:
    assert_near(np.array(found), expected)


def test_every_route_has_the_published_scores(server: HttpServer, published: Published) -> None:
    expected = exactly(published.scores)(QUERY, DOCUMENTS)
    ranked = server.post("/v1/rerank", BODY).json()["results"]
    assert [each["index"] for each in ranked] == np.argsort(-expected.values.numpy()).tolist()
    assert_close(scores(ranked), expected)
    tei = server.post("/rerank", {"query": QUERY, "texts": DOCUMENTS, "raw_scores": True}).json()
    assert_close(scores(tei, "score"), expected)
    cohere = server.post("/v2/rerank", {**BODY, "model": "small"}).json()
    assert_close(scores(cohere["results"]), expected)
    passages = [{"text": text} for text in DOCUMENTS]
    nim = server.post("/v1/ranking", {"query": {"text": QUERY}, "passages": passages}).json()
    assert_close(scores(nim["rankings"], "logit"), expected)
    vllm = server.post("/score", {"text_1": QUERY, "text_2": DOCUMENTS}).json()
    assert_close(scores(vllm["data"], "score"), expected)


def test_an_instruction_reaches_the_model(server: HttpServer, published: Published) -> None:
    told = "Find the opposite."
    response = server.post("/rerank", {**BODY, "instruction": told}).json()
    assert_close(scores(response["results"]), exactly(published.scores)(QUERY, DOCUMENTS, told))


@pytest.mark.full(after=2)
def test_many_documents_are_read_in_blocks(server: HttpServer, published: Published) -> None:
    documents = [f"{number} copies of the work" for number in range(130)]
    response = server.post("/rerank", {"query": QUERY, "documents": documents}).json()
    expected = exactly(published.scores)(QUERY, documents)
    assert published.blocks == [125, 5]
    assert_close(scores(response["results"]), expected)


def test_the_documents_of_equal_queries_are_one_list(
    server: HttpServer, published: Published
) -> None:
    body = {"text_1": ["one", "two", "one"], "text_2": ["a work", "a copy", "the license"]}
    found = scores(server.post("/score", body).json()["data"], "score")
    assert_close(found[::2], exactly(published.scores)("one", ["a work", "the license"]))
    assert_close(found[1:2], exactly(published.scores)("two", ["a copy"]))


def test_documents_are_cut_to_a_number_of_tokens(server: HttpServer, published: Published) -> None:
    body = {**BODY, "max_tokens_per_doc": 9, "details": True}
    response = server.post("/rerank", body)
    assert_close(
        scores(response.json()["results"]), exactly(published.scores)(QUERY, DOCUMENTS, None, 9)
    )
    last = response.json()["inputs"][-1]
    assert last["tokens"] == 9 and last["truncated"] and response.headers["x-truncated"] == "1"


@pytest.mark.parametrize(("words", "truncated"), [(100, "0"), (600, "1"), (5000, "1")])
def test_a_query_that_is_cut_is_counted(server: HttpServer, words: int, truncated: str) -> None:
    body = {"query": " ".join(["by"] * words), "documents": ["a work", "a copy"]}
    assert server.post("/rerank", body).headers["x-truncated"] == truncated


def test_the_start_of_a_document_can_be_cut(server: HttpServer) -> None:
    documents = ["by any " * 300 + "the end", "a work"]
    body = {"query": QUERY, "documents": documents, "max_tokens_per_doc": 9}
    end = server.post("/rerank", {**body, "on_overflow": "end"}).json()["results"]
    start = server.post("/rerank", {**body, "on_overflow": "start"}).json()["results"]
    assert abs(np.array(scores(start)) - scores(end)).max() > 1e-4


def test_usage_counts_the_tokens_that_the_model_reads(
    server: HttpServer, published: Published
) -> None:
    usage = server.post("/rerank", BODY).json()["usage"]
    assert usage["total_tokens"] > 400 + sum(
        len(published.tokenizer(d).input_ids) for d in DOCUMENTS
    )


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({"on_overflow": "max"}, "invalid_request", "on_overflow"),
        ({"truncate_prompt_tokens": 64}, "not_offered", "truncate_prompt_tokens"),
        (
            {"documents": ["x"] * 3 + ["by any " * 2000], "on_overflow": "error"},
            "input_too_long",
            "documents",
        ),
        ({"documents": []}, "no_input", "documents"),
        ({"documents": [{"image": "data:image/png;base64,AA=="}]}, "not_offered", None),
    ],
    ids=["windows", "tokens of a pair", "too long", "none", "an image"],
)
def test_what_a_list_cannot_do_is_refused(
    server: HttpServer, body: dict[str, Any], code: str, param: str | None
) -> None:
    refused = error(server.post("/rerank", {**BODY, **body}), 400)
    assert (refused["code"], refused["param"]) == (code, param)


def test_the_limits_of_a_request_hold(server: HttpServer) -> None:
    many = server.post("/rerank", {**BODY, "documents": ["x"] * 301})
    assert error(many, 413)["code"] == "too_many_texts"
    long = server.post("/rerank", {**BODY, "documents": ["by any " * 2000] * 30})
    assert error(long, 413)["code"] == "too_many_tokens"


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/embed", {"inputs": "a text"}),
        ("/v1/embeddings", {"input": "a text", "model": "small"}),
        ("/embed_sparse", {"inputs": "a text"}),
        ("/predict", {"inputs": ["a query", "a document"]}),
        ("/classify", {"input": "a text"}),
        ("/classify", {"input": [[1, 2]]}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_uses_are_refused_with_the_right_route(
    server: HttpServer, route: str, body: dict[str, Any]
) -> None:
    refused = error(server.post(route, body), 400)
    assert refused["code"] == "not_offered" and "/rerank" in refused["message"]


def test_the_server_describes_a_reranker(server: HttpServer) -> None:
    info = server.client.get("/info").json()
    described = (info["task"], info["rerank_score"], info["outputs"], info["max_input_length"])
    assert described == ("rerank", "cosine", [], 2048)
    (model,) = server.client.get("/v1/models").json()["data"]
    assert (model["endpoints"], model["dimensions"]) == (["rerank"], None)
