"""Clients that rerank, with a server of a small cross-encoder."""

import asyncio
from typing import Any

import cohere
import numpy as np
import pytest
from infinity_client import Client as InfinityClient
from infinity_client.api.default import rerank as infinity_rerank
from infinity_client.errors import UnexpectedStatus
from infinity_client.models import RerankInput
from voyageai.client import Client as VoyageClient
from voyageai.client_async import AsyncClient as AsyncVoyageClient
from voyageai.error import InvalidRequestError

from tests.clients.conftest import DOCUMENTS, LONG_DOCUMENT, QUERY
from tests.service.server import HttpServer

MODEL: dict[str, Any] = {"model": "reranker", "query": QUERY}


def best_first(relevance: list[float]) -> list[tuple[int, Any]]:
    """The expected index and score of each document."""
    order = sorted(range(len(relevance)), key=lambda index: -relevance[index])
    return [(index, pytest.approx(relevance[index], abs=1e-4)) for index in order]


def ranking(response: Any) -> list[tuple[int, float]]:
    return [(result.index, result.relevance_score) for result in response.results]


def ranked(scores: Any) -> list[tuple[int, float]]:
    return [(int(index), float(scores[index])) for index in np.argsort(-scores)]


def cohere_v1(server: HttpServer) -> cohere.Client:
    return cohere.Client("unused", base_url=server.url, max_retries=0)


def cohere_v2(server: HttpServer) -> cohere.ClientV2:
    return cohere.ClientV2("unused", base_url=server.url, max_retries=0)


def voyage(server: HttpServer) -> VoyageClient:
    return VoyageClient("unused", max_retries=1, base_url=f"{server.url}/v1")


def test_cohere_v2_gets_the_scores_and_the_token_count(
    reranker: HttpServer, relevance: list[float]
) -> None:
    with cohere_v2(reranker) as client:
        response = client.rerank(documents=DOCUMENTS, **MODEL)
        best = client.rerank(documents=DOCUMENTS, top_n=1, max_tokens_per_doc=None, **MODEL)
    assert ranking(response) == best_first(relevance)
    assert ranking(best) == best_first(relevance)[:1]
    assert response.id and response.meta is not None and response.meta.billed_units is not None
    tokens = reranker.post("/v1/rerank", {**MODEL, "documents": DOCUMENTS}).json()["usage"]
    assert response.meta.billed_units.input_tokens == tokens["total_tokens"]


def test_cohere_v2_cuts_documents_to_the_requested_length(reranker: HttpServer) -> None:
    documents = [LONG_DOCUMENT, LONG_DOCUMENT[:8]]  # which is six tokens
    with cohere_v2(reranker) as client:
        response: Any = client.rerank(documents=documents, max_tokens_per_doc=6, **MODEL)
    (_, first), (_, second) = ranking(response)
    assert first == pytest.approx(second, abs=1e-6)
    assert "input 0 was truncated" in response.meta.warnings[0]


def test_cohere_v2_refuses_fields_by_name(reranker: HttpServer) -> None:
    with cohere_v2(reranker) as client:
        with pytest.raises(cohere.BadRequestError, match="priority is not supported"):
            client.rerank(documents=DOCUMENTS, priority=1, **MODEL)
        with pytest.raises(cohere.NotFoundError, match="this server has 'reranker'"):
            client.rerank(documents=DOCUMENTS, **{**MODEL, "model": "rerank-v3.5"})


def test_asynchronous_cohere_gets_the_same_scores(
    reranker: HttpServer, relevance: list[float]
) -> None:
    async def rerank() -> Any:
        async with cohere.AsyncClientV2("unused", base_url=reranker.url) as client:
            return await client.rerank(documents=DOCUMENTS, **MODEL)

    assert ranking(asyncio.run(rerank())) == best_first(relevance)


def test_cohere_v1_gets_scores_and_documents(reranker: HttpServer, relevance: list[float]) -> None:
    objects: list[Any] = [{"text": document} for document in DOCUMENTS]
    with cohere_v1(reranker) as client:
        for documents in (DOCUMENTS, objects):
            response: Any = client.rerank(documents=documents, return_documents=True, **MODEL)
            assert ranking(response) == best_first(relevance) and response.id
            for result in response.results:
                assert result.document.text == DOCUMENTS[result.index]
        best = client.rerank(documents=DOCUMENTS, query=QUERY, top_n=2)
    assert ranking(best) == best_first(relevance)[:2]
    assert best.results[0].document.text == DOCUMENTS[best.results[0].index]


def test_cohere_v1_may_send_nulls(reranker: HttpServer, relevance: list[float]) -> None:
    nulls: dict[str, Any] = dict.fromkeys(("rank_fields", "max_chunks_per_doc", "top_n"))
    with cohere_v1(reranker) as client:
        assert ranking(client.rerank(documents=DOCUMENTS, **MODEL, **nulls)) == best_first(
            relevance
        )
        with pytest.raises(cohere.BadRequestError, match="rank_fields is not supported"):
            client.rerank(documents=DOCUMENTS, rank_fields=["text"], **MODEL)


def test_cohere_v1_cuts_long_documents(reranker: HttpServer) -> None:
    with cohere_v1(reranker) as client:
        response = client.rerank(documents=[LONG_DOCUMENT], **MODEL)
    body = {"query": QUERY, "texts": [LONG_DOCUMENT], "truncate": True}
    (expected,) = reranker.post("/rerank", body).json()
    assert ranking(response) == [(0, expected["score"])]


def test_voyage_gets_scores_documents_and_the_token_count(
    reranker: HttpServer, relevance: list[float]
) -> None:
    client = voyage(reranker)
    response = client.rerank(documents=DOCUMENTS, **MODEL)
    assert ranking(response) == best_first(relevance)
    assert [result.document for result in response.results] == [
        DOCUMENTS[index] for index, _ in best_first(relevance)
    ]
    tokens = reranker.post("/v1/rerank", {**MODEL, "documents": DOCUMENTS}).json()["usage"]
    assert response.total_tokens == tokens["total_tokens"]
    assert (
        ranking(client.rerank(documents=DOCUMENTS, top_k=2, **MODEL)) == best_first(relevance)[:2]
    )


def test_voyage_refuses_long_documents_without_truncation(reranker: HttpServer) -> None:
    client, documents = voyage(reranker), ["short", LONG_DOCUMENT]
    assert len(client.rerank(documents=documents, **MODEL).results) == 2
    with pytest.raises(InvalidRequestError, match="tokens in input 1"):
        client.rerank(documents=documents, truncation=False, **MODEL)


def test_asynchronous_voyage_gets_the_same_scores(
    reranker: HttpServer, relevance: list[float]
) -> None:
    async def rerank() -> Any:
        client = AsyncVoyageClient("unused", base_url=f"{reranker.url}/v1")
        return await client.rerank(documents=DOCUMENTS, **MODEL)

    assert ranking(asyncio.run(rerank())) == best_first(relevance)


def test_infinity_gets_scores_and_documents_as_texts(
    reranker: HttpServer, relevance: list[float]
) -> None:
    with InfinityClient(reranker.url, raise_on_unexpected_status=True) as client:
        body = RerankInput(query=QUERY, documents=DOCUMENTS, return_documents=True)
        response: Any = infinity_rerank.sync(client=client, body=body)
        assert ranking(response) == best_first(relevance)
        for result in response.results:
            assert result.document == DOCUMENTS[result.index]
        assert response.usage.total_tokens > 0 and response.model == "reranker"
        body = RerankInput(query=QUERY, documents=DOCUMENTS, top_n=1, raw_scores=True)
        best: Any = infinity_rerank.sync(client=client, body=body)
        other = RerankInput(query=QUERY, documents=DOCUMENTS, model="another")
        with pytest.raises(UnexpectedStatus, match="no model 'another'"):
            infinity_rerank.sync(client=client, body=other)
    raw = {"query": QUERY, "texts": DOCUMENTS, "raw_scores": True}
    assert ranking(best) == [tuple(reranker.post("/rerank", raw).json()[0].values())]


def test_the_score_of_a_dense_model_is_the_cosine(server_with_prompts: HttpServer) -> None:
    server, fields = server_with_prompts, dict[str, Any](query=QUERY, model="tiny")
    sides = [([QUERY], "query"), (DOCUMENTS, "document")]
    vectors = [server.post("/embed", {"inputs": t, "input_type": r}).json() for t, r in sides]
    cosines = np.array(vectors[1]) @ np.array(vectors[0][0])
    expected: Any = [(index, pytest.approx(score, abs=1e-5)) for index, score in ranked(cosines)]
    with cohere_v2(server) as second, cohere_v1(server) as first:
        responses: list[Any] = [
            client.rerank(documents=DOCUMENTS, **fields) for client in (first, second)
        ]
    responses.append(voyage(server).rerank(documents=DOCUMENTS, **fields))
    with InfinityClient(server.url, raise_on_unexpected_status=True) as client:
        body = RerankInput(documents=DOCUMENTS, **fields)
        responses.append(infinity_rerank.sync(client=client, body=body))
    assert [ranking(response) for response in responses] == [expected] * 4


def test_open_webui_gets_a_score_for_each_document(
    reranker: HttpServer, relevance: list[float]
) -> None:
    body = {**MODEL, "documents": DOCUMENTS, "top_n": len(DOCUMENTS)}
    response = reranker.post("/v1/rerank", body, authorization="Bearer unused")
    results = sorted(response.json()["results"], key=lambda result: int(result["index"]))
    scores = [result["relevance_score"] for result in results]
    assert scores == pytest.approx(relevance, abs=1e-4)


@pytest.mark.parametrize(
    "fields",
    [
        {"top_n": 2},  # of the provider OpenAI-API-compatible
        {"top_n": None, "return_documents": True},  # of others, which are built on its base class
    ],
)
@pytest.mark.parametrize("path", ["/rerank", "/v1/rerank"])
def test_dify_gets_results_with_index_and_score(
    reranker: HttpServer, relevance: list[float], path: str, fields: dict[str, Any]
) -> None:
    body = {**MODEL, "documents": DOCUMENTS, **fields}
    results = reranker.post(path, body, authorization="").json()["results"]
    assert [(result["index"], result["relevance_score"]) for result in results] == best_first(
        relevance
    )[: fields["top_n"]]
    if "return_documents" in fields:
        assert [result["document"]["text"] for result in results] == [
            DOCUMENTS[index] for index, _ in best_first(relevance)
        ]
