"""POST /invocations, by which SageMaker reaches a container, and its health check."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Folder
from tests.models.cross_encoder import write_cross_encoder
from tests.models.sparse_encoder import write_splade
from tests.service.local_server import local_server
from tests.service.responses import error
from tests.service.server import HttpServer

TEXTS = ["a copyright", "you"]


@pytest.fixture(scope="module")
def dense(tiny_bert: Folder) -> Iterator[HttpServer]:
    with local_server(tiny_bert(), served_name="tiny") as server:
        yield server


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    folder = write_cross_encoder(tmp_path_factory.mktemp("reranker"))
    with local_server(folder, served_name="small") as server:
        yield server


def same(server: HttpServer, path: str, body: dict[str, Any]) -> None:
    """The response of /invocations is that of another path, but for its id."""
    response, expected = server.post("/invocations", body), server.post(path, body)
    assert response.status_code == expected.status_code == 200, response.text
    contents = [response.json(), expected.json()]
    for content in contents:
        if isinstance(content, dict):
            content |= {"id": "", "created": 0}
    assert contents[0] == contents[1]
    assert response.headers["x-tokens"] == expected.headers["x-tokens"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/embed", {"inputs": TEXTS, "normalize": False}),
        ("/v1/embeddings", {"input": TEXTS, "model": "tiny"}),
        ("/rerank", {"query": "you", "texts": TEXTS}),
        ("/score", {"text_1": "you", "text_2": TEXTS}),
    ],
)
def test_a_dense_model_answers_the_requests_of_tei_and_vllm(
    dense: HttpServer, path: str, body: dict[str, Any]
) -> None:
    same(dense, path, body)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/predict", {"inputs": [TEXTS]}),
        ("/classify", {"input": TEXTS}),
        ("/rerank", {"query": "you", "documents": TEXTS}),
        ("/score", {"queries": ["you"], "documents": TEXTS}),
    ],
)
def test_a_reranker_answers_the_requests_of_tei_and_vllm(
    reranker: HttpServer, path: str, body: dict[str, Any]
) -> None:
    same(reranker, path, body)


def test_a_sparse_model_returns_sparse_vectors(tmp_path: Path) -> None:
    write_splade(tmp_path / "model")
    with local_server(tmp_path / "model") as server:
        same(server, "/embed_sparse", {"inputs": TEXTS})


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b'{"inputs": 1}', "invalid_request"),
        (b'{"input": "a", "model": "nobody"}', "model_not_found"),
        (b"[]", "invalid_request"),
        (b"{", "invalid_request"),
        (b"{}", "invalid_request"),
        (b'{"queries": null, "inputs": []}', "no_input"),
    ],
)
def test_what_does_not_fit_is_refused_as_by_the_route(
    dense: HttpServer, content: bytes, code: str
) -> None:
    headers = {"content-type": "application/json"}
    response = dense.client.post("/invocations", content=content, headers=headers)
    status = 404 if code == "model_not_found" else 400
    assert error(response, status)["code"] == code


def test_a_large_body_is_answered_too(dense: HttpServer) -> None:
    texts = ["any by " * 20] * 600
    assert len(dense.post("/invocations", {"inputs": texts}).json()) == 600


def test_the_health_check_is_ping(dense: HttpServer) -> None:
    assert dense.client.get("/ping").status_code == 200
    assert dense.client.get("/invocations").status_code == 405
