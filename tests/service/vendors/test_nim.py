"""The routes of NVIDIA's NIM for reranking."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.models.cross_encoder import write_cross_encoder
from tests.service.local_server import local_server
from tests.service.responses import error
from tests.service.routes.committed import check
from tests.service.server import HttpServer

PATHS = ["/v1/ranking", "/v1/retrieval/nvidia/reranking"]
QUERY = "the license of this work"
PASSAGES = ["a copyright", "you", "the license of this work"]
LONG = "any by " * 60


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server of a small reranker that does not truncate by default."""
    folder = write_cross_encoder(tmp_path_factory.mktemp("reranker"))
    with local_server(folder, served_name="small", auto_truncate=False) as server:
        yield server


def request(*passages: str, **fields: object) -> dict[str, Any]:
    texts = [{"text": text} for text in passages]
    return {"query": {"text": QUERY}, "passages": texts, **fields}


@pytest.mark.parametrize("path", PATHS)
def test_passages_are_ranked_by_their_logits(reranker: HttpServer, path: str) -> None:
    response = reranker.post(path, request(*PASSAGES, model="small", truncate="END"))
    assert response.status_code == 200, response.text
    check(response, "post", "/v1/ranking")
    ranks = reranker.post("/rerank", {"query": QUERY, "texts": PASSAGES, "raw_scores": True})
    assert response.json()["rankings"] == [
        {"index": rank["index"], "logit": rank["score"]} for rank in ranks.json()
    ]
    best = reranker.post(path, request(*PASSAGES, top_k=1)).json()["rankings"]
    assert best == response.json()["rankings"][:1]
    assert response.json()["usage"]["total_tokens"] == int(response.headers["x-tokens"])


def test_truncate_decides_about_long_passages(reranker: HttpServer) -> None:
    for fields in ({}, {"truncate": "START"}, {"truncate": "END"}, {"truncate": None}):
        response = reranker.post("/v1/ranking", request(LONG, **fields))
        assert response.status_code == 200 and response.headers["x-truncated"] == "1"
    fault = error(reranker.post("/v1/ranking", request("you", LONG, truncate="NONE")), 400)
    assert (fault["code"], fault["param"], fault["index"]) == ("input_too_long", "passages", 1)


def test_an_invalid_request_is_refused_in_openais_format(reranker: HttpServer) -> None:
    fault = error(reranker.post("/v1/ranking", request("you", model="other")), 404)
    assert fault["code"] == "model_not_found"
    assert error(reranker.post("/v1/ranking", request()), 400)["code"] == "no_input"
    images = {"query": {"text": QUERY}, "passages": [{"text": "you", "image": "data:"}]}
    assert error(reranker.post("/v1/ranking", images), 400)["code"] == "unknown_field"
