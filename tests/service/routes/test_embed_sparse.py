"""Sparse vectors over HTTP, against the library."""

import base64
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from openai import OpenAI

from embedwell_client import AsyncClient, Client
from embedwell_models import Embedder
from embedwell_models.outputs.names import MULTI, SPARSE, SPARSE_QUERY
from embedwell_models.outputs.text_outputs import SparseVector
from embedwell_models.vectors import Floats
from tests.models.sparse_encoder import write_bge_m3, write_inference_free, write_splade
from tests.models.tiny import VOCABULARY
from tests.service.local_server import local_server
from tests.service.responses import error
from tests.service.server import HttpServer

TEXTS = ["the license of this work", "x", "any copyright", ""]
Folders = dict[str, Path]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    root = tmp_path_factory.mktemp("models")
    weights = torch.rand(len(VOCABULARY), generator=torch.Generator().manual_seed(3))
    return {
        "splade": write_splade(root / "splade"),
        "free": write_inference_free(root / "free", weights),
        "m3": write_bge_m3(root / "m3"),
    }


@pytest.fixture(scope="module")
def splade(folders: Folders) -> Iterator[HttpServer]:
    with local_server(folders["splade"], vector_cache_bytes=1 << 20) as server:
        yield server


@pytest.fixture(scope="module")
def m3(folders: Folders) -> Iterator[HttpServer]:
    with local_server(folders["m3"]) as server:
        yield server


def test_the_root_path_is_sparse_unless_the_model_has_dense_vectors(
    splade: HttpServer, m3: HttpServer
) -> None:
    body = {"inputs": TEXTS[:2]}
    assert splade.post("/", body).json() == splade.post("/embed_sparse", body).json()
    assert m3.post("/", body).json() == m3.post("/embed", body).json()


def expected(folder: Path, texts: list[str], output: str = SPARSE) -> list[SparseVector]:
    embedder = Embedder.load(folder, device="cpu", dtype="float32")
    outputs = embedder.outputs(embedder.tokenize(texts), [output])
    return [text.sparse for text in outputs if text.sparse is not None]


def assert_pairs(content: Any, vectors: list[SparseVector]) -> None:
    assert len(content) == len(vectors)
    for pairs, vector in zip(content, vectors, strict=True):
        assert [pair["index"] for pair in pairs] == vector.indices.tolist()
        weights = np.array([pair["value"] for pair in pairs], dtype=np.float32)
        np.testing.assert_allclose(weights, vector.weights, rtol=2e-5)


def test_teis_route_returns_an_object_for_each_weight(splade: HttpServer, folders: Folders) -> None:
    vectors = expected(folders["splade"], TEXTS)
    for _ in range(2):  # the second time from the cache
        response = splade.post("/embed_sparse", {"inputs": TEXTS})
        assert_pairs(response.json(), vectors)
    assert response.headers["x-cached"] == "4"
    assert_pairs(splade.post("/embed_sparse", {"inputs": TEXTS[0]}).json(), vectors[:1])


def test_long_lists_of_texts_have_their_vectors_in_order(
    splade: HttpServer, m3: HttpServer, folders: Folders
) -> None:
    texts = [f"{text} {index}" for index in range(9) for text in TEXTS]
    vectors = expected(folders["splade"], texts)
    assert_pairs(splade.post("/embed_sparse", {"inputs": texts}).json(), vectors)
    content = m3.post("/embed", {"inputs": texts, "outputs": ["dense", "sparse"]}).json()
    dense = m3.post("/embed", {"inputs": texts}).json()
    np.testing.assert_allclose(content["embeddings"], dense, atol=1e-6)
    indices = [vector.indices.tolist() for vector in expected(folders["m3"], texts)]
    assert [sparse["indices"] for sparse in content["sparse"]] == indices


def test_the_blocking_client_returns_arrays(splade: HttpServer, folders: Folders) -> None:
    (vector, *_) = expected(folders["splade"], TEXTS)
    with Client(splade.url) as client:
        weights, *others = client.embed_sparse(TEXTS)
        (few,) = client.embed_sparse(TEXTS[0], top_k=3)
    assert weights.indices.tolist() == vector.indices.tolist() and len(others) == 3
    np.testing.assert_allclose(weights.weights, vector.weights, rtol=2e-5)
    assert set(few.indices) == set(weights.indices[np.argsort(-weights.weights)[:3]])


@pytest.mark.anyio
async def test_the_asynchronous_client_returns_arrays(splade: HttpServer) -> None:
    async with AsyncClient(splade.url) as client:
        (few,) = await client.embed_sparse("x", top_k=2)
    assert few.indices.dtype == np.int32 and few.weights.shape == (2,)


def test_the_largest_weights_can_be_chosen(splade: HttpServer) -> None:
    (all_pairs,) = splade.post("/embed_sparse", {"inputs": TEXTS[0]}).json()
    (few,) = splade.post("/embed_sparse", {"inputs": TEXTS[0], "top_k": 5}).json()
    largest = sorted(all_pairs, key=lambda pair: -pair["value"])[:5]
    assert few == sorted(largest, key=lambda pair: pair["index"])
    least = largest[-1]["value"]
    (heavy,) = splade.post("/embed_sparse", {"inputs": TEXTS[0], "min_weight": least}).json()
    assert heavy == few
    assert splade.post("/embed_sparse", {"inputs": TEXTS[0], "min_weight": 99}).json() == [[]]


def test_a_query_has_its_own_weights_where_the_model_says_so(folders: Folders) -> None:
    with local_server(folders["free"]) as server:
        documents = server.post("/embed_sparse", {"inputs": TEXTS}).json()
        assert_pairs(documents, expected(folders["free"], TEXTS))
        queries = expected(folders["free"], TEXTS, SPARSE_QUERY)
        for role in ({"input_type": "query"}, {"prompt_name": "query"}):
            assert_pairs(server.post("/embed_sparse", {"inputs": TEXTS, **role}).json(), queries)
        assert server.client.get("/info").json()["outputs"] == [SPARSE, SPARSE_QUERY]


def test_all_outputs_come_in_one_response(m3: HttpServer, folders: Folders) -> None:
    body = {"inputs": TEXTS, "outputs": ["dense", "sparse", "multi"]}
    content = m3.post("/embed", body).json()
    assert content["embeddings"] == m3.post("/embed", {"inputs": TEXTS}).json()
    vectors = expected(folders["m3"], TEXTS)
    assert [sparse["indices"] for sparse in content["sparse"]] == [
        vector.indices.tolist() for vector in vectors
    ]
    np.testing.assert_allclose(content["sparse"][0]["values"], vectors[0].weights, rtol=2e-5)
    details = m3.post("/embed", {"inputs": TEXTS, "details": True}).json()
    assert content["inputs"] == details["inputs"]
    assert content["usage"]["texts"] == 4 and content["dimensions"] == 64
    alone = m3.post("/embed", {**body, "outputs": ["sparse"]}).json()
    assert alone["sparse"] == content["sparse"] and not {"embeddings", "multi"} & set(alone)


def test_token_vectors_with_dense_ones_are_those_of_the_library(
    m3: HttpServer, folders: Folders
) -> None:
    embedder = Embedder.load(folders["m3"], device="cpu", dtype="float32")
    outputs = embedder.outputs(embedder.tokenize(TEXTS), [MULTI])
    body = {"inputs": TEXTS, "outputs": ["dense", "multi"]}
    plain = m3.post("/embed", body).json()["multi"]
    encoded = m3.post("/embed", {**body, "encoding_format": "base64"}).json()["multi"]
    token_ids = m3.post("/embed", body).json()["token_ids"]
    assert token_ids == [ids[1:] for ids in embedder.tokenize(TEXTS)]
    for text, matrix, base64_text in zip(outputs, plain, encoded, strict=True):
        assert text.multi is not None
        np.testing.assert_allclose(matrix, text.multi, atol=1e-6)
        assert base64.b64decode(base64_text) == text.multi.astype("<f4").tobytes()


def test_too_many_numbers_of_token_vectors_are_refused(folders: Folders) -> None:
    with local_server(folders["m3"], max_values=1000) as server:
        body = {"inputs": "of the work", "outputs": ["multi"]}  # 5 tokens with 64 numbers each
        assert server.post("/embed", body).status_code == 200
        refused = error(server.post("/embed", {**body, "inputs": ["of the work"] * 4}), 413)
        assert refused["code"] == "too_many_values"


@pytest.mark.parametrize(
    ("route", "body", "code"),
    [
        ("/embed", {"inputs": "x"}, "not_offered"),
        ("/embed", {"inputs": "x", "outputs": ["dense"]}, "not_offered"),
        ("/embed_sparse", {"inputs": "x", "on_overflow": "mean"}, "invalid_request"),
        ("/embed_sparse", {"inputs": "x", "top_k": 0}, "invalid_request"),
        ("/embed_sparse", {"inputs": [["x"]]}, "invalid_request"),
        ("/embed_sparse", {"inputs": []}, "no_input"),
    ],
    ids=str,
)
def test_what_a_sparse_model_does_not_offer_is_refused(
    splade: HttpServer, route: str, body: dict[str, Any], code: str
) -> None:
    assert error(splade.post(route, body), 400)["code"] == code


def test_the_error_of_a_dense_request_names_the_route_of_sparse_vectors(
    splade: HttpServer,
) -> None:
    message = error(splade.post("/embed", {"inputs": "x"}), 400)["message"]
    assert "no dense vectors; it has sparse (POST /embed_sparse)" in message


@pytest.mark.parametrize("metric", ["dot", "cosine"])
def test_sparse_vectors_are_compared_as_those_with_all_zeros(
    splade: HttpServer, folders: Folders, metric: str
) -> None:
    rows = full(expected(folders["splade"], TEXTS))
    if metric == "cosine":
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    body = {"a": TEXTS[:1], "b": TEXTS[1:], "metric": metric}
    scores = splade.post("/similarity", body).json()["scores"]
    np.testing.assert_allclose(scores, rows[:1] @ rows[1:].T, rtol=2e-5)
    sentences = {"source_sentence": TEXTS[0], "sentences": TEXTS[1:]}
    ranked = splade.post("/similarity", {"inputs": sentences, "metric": metric}).json()
    np.testing.assert_allclose(ranked, scores[0])


def full(vectors: list[SparseVector]) -> Floats:
    rows = np.zeros((len(vectors), len(VOCABULARY)), dtype=np.float32)
    for row, vector in zip(rows, vectors, strict=True):
        row[vector.indices] = vector.weights
    return rows


def test_the_first_texts_are_compared_as_queries_where_the_model_tells_them_apart(
    folders: Folders,
) -> None:
    (query,) = full(expected(folders["free"], TEXTS[:1], SPARSE_QUERY))
    documents = full(expected(folders["free"], TEXTS))
    with local_server(folders["free"], max_values=600) as server:
        body = {"a": TEXTS[0], "b": TEXTS, "metric": "dot"}
        scores = server.post("/similarity", body).json()["scores"][0]
        np.testing.assert_allclose(scores, documents @ query, rtol=2e-5)
        refused = error(server.post("/similarity", {**body, "b": TEXTS * 2}), 413)
        assert refused["code"] == "too_many_values" and "fewer texts" in refused["message"]


def test_a_dense_model_has_its_one_output(server: HttpServer) -> None:
    content = server.post("/embed", {"inputs": ["x", "y"], "outputs": ["dense"]}).json()
    assert content["embeddings"] == server.post("/embed", {"inputs": ["x", "y"]}).json()


def test_a_dense_model_has_no_sparse_vectors(server: HttpServer) -> None:
    for route, body in (
        ("/embed_sparse", {"inputs": "x"}),
        ("/embed", {"inputs": "x", "outputs": ["sparse"]}),
    ):
        refused = error(server.post(route, body), 400)
        assert refused["code"] == "not_offered"
        assert "no sparse vectors; it has dense (POST /embed)" in refused["message"]


def test_too_many_weights_are_refused_with_a_way_out(folders: Folders) -> None:
    with local_server(folders["splade"], max_values=20) as server:
        refused = error(server.post("/embed_sparse", {"inputs": TEXTS}), 413)
        assert refused["code"] == "too_many_values"
        of_many = error(server.post("/embed_sparse", {"inputs": TEXTS * 9}), 413)
        assert of_many["code"] == "too_many_values" and "or more" in of_many["message"]
        # An index and a weight for each entry: 16 numbers are answered, 24 are not.
        assert server.post("/embed_sparse", {"inputs": TEXTS, "top_k": 2}).status_code == 200
        assert server.post("/embed_sparse", {"inputs": TEXTS, "top_k": 3}).status_code == 413


@pytest.mark.parametrize("field", ["late_chunking", "partial"])
def test_fields_that_do_not_go_with_outputs_are_refused(m3: HttpServer, field: str) -> None:
    body = {"inputs": ["x"], "outputs": ["sparse"], field: True}
    assert error(m3.post("/embed", body), 400)["param"] == field


@pytest.mark.full
def test_the_examples_of_the_documentation_run(
    splade: HttpServer, folders: Folders, tmp_path: Path
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "sparse.md").read_text(encoding="utf-8")
    _, shell = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    for command in shell.splitlines():
        local = command.replace("localhost:8080", splade.url)
        done = subprocess.run(["bash", "-c", local], capture_output=True, check=True)
        content = json.loads(done.stdout)
        assert isinstance(content, list) or "sparse" in content, content
    texts = ["A fungus of wheat.", "Iron oxide.", "A language for systems."]
    *documents, query = expected(folders["splade"], [*texts, "iron oxide"])
    scores = [dot(query, document) for document in documents]
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        program = code.replace("http://localhost:8080", splade.url)
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, check=True, cwd=tmp_path
        )
        text, score = done.stdout.decode().rsplit(maxsplit=1)
        assert text == texts[int(np.argmax(scores))]
        assert float(score) == pytest.approx(max(scores), rel=1e-4)


def dot(a: SparseVector, b: SparseVector) -> float:
    weights = dict(zip(a.indices.tolist(), a.weights.tolist(), strict=True))
    entries = zip(b.indices.tolist(), b.weights.tolist(), strict=True)
    return float(sum(weights.get(index, 0.0) * weight for index, weight in entries))


def test_openai_route_returns_outputs_of_each_input_from_one_pass(m3: HttpServer) -> None:
    names = ["multi", "dense", "sparse"]
    with OpenAI(base_url=f"{m3.url}/v1", api_key="none") as client:
        response: Any = client.embeddings.create(
            model="all-MiniLM-L6-v2",
            input=TEXTS[:2],
            extra_body={"outputs": names},
            encoding_format="float",
        )
    embed = m3.client.post("/embed", json={"inputs": TEXTS[:2], "outputs": names}).json()
    for index, item in enumerate(response.model_dump()["data"]):
        assert item["index"] == index and item["embedding"] == embed["embeddings"][index]
        assert item["sparse_embedding"] == embed["sparse"][index]
        assert item["embeddings"] == embed["multi"][index]
    (sparse,) = m3.client.post(
        "/v1/embeddings", json={"input": TEXTS[0], "outputs": ["sparse"]}
    ).json()["data"]
    assert sparse == {"object": "embedding", "index": 0, "sparse_embedding": embed["sparse"][0]}


@pytest.mark.parametrize("field", ["return_multivector", "late_chunking"])
def test_openai_route_refuses_fields_that_do_not_go_with_outputs(
    m3: HttpServer, field: str
) -> None:
    body = {"input": ["x"], "outputs": ["sparse"], field: True}
    assert error(m3.client.post("/v1/embeddings", json=body), 400)["param"] == field
