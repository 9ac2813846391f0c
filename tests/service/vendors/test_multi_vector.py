"""The routes of a multi-vector model, against sentence-transformers' MultiVectorEncoder."""

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import MultiVectorEncoder

from embedwell_models.encoder.muvera import Muvera
from embedwell_models.encoder.token_pooling import pool_tokens
from tests.models.colbert import DOCUMENTS, WIDTH, write_stanford
from tests.service.local_server import local_server
from tests.service.responses import error
from tests.service.server import HttpServer

QUERY = "the license of a work"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("colbert")


@pytest.fixture(scope="module")
def reference(folder: Path) -> Any:
    """A model that expands queries to 20 tokens, and reads 30 of a document."""
    model: MultiVectorEncoder = write_stanford(folder, query_maxlen=20, doc_maxlen=30)
    return model


@pytest.fixture(scope="module")
def colbert(folder: Path, reference: Any) -> Iterator[HttpServer]:
    """A server of that model, which refuses texts that are too long by default."""
    with local_server(folder, served_name="small", auto_truncate=False) as server:
        yield server


@pytest.fixture(scope="module")
def documents(reference: Any) -> list[Any]:
    return list(reference.encode_document(DOCUMENTS, convert_to_numpy=True))


@pytest.fixture(scope="module")
def scores(reference: Any) -> Any:
    """MaxSim of the query and each document."""
    query, documents = reference.encode_query([QUERY]), reference.encode_document(DOCUMENTS)
    return reference.similarity(query, documents)[0].numpy()


def embed(server: HttpServer, **body: Any) -> Any:
    response = server.client.post("/embed", json={"inputs": DOCUMENTS, "truncate": True, **body})
    assert response.status_code == 200, response.text
    return response.json()


def close(actual: list[Any], expected: list[Any]) -> bool:
    rows = [np.asarray(matrix) for matrix in actual]
    shapes = [matrix.shape for matrix in rows] == [matrix.shape for matrix in expected]
    return shapes and np.allclose(np.concatenate(rows), np.concatenate(expected), atol=1e-5)


def test_a_document_has_a_vector_for_each_token_but_punctuation(
    colbert: HttpServer, documents: list[Any]
) -> None:
    assert close(embed(colbert), documents)
    assert close(embed(colbert, input_type="document"), documents)
    assert close(embed(colbert, prompt_name="document"), documents)


@pytest.mark.parametrize("role", [{"input_type": "query"}, {"prompt_name": "query"}], ids=str)
def test_a_query_is_expanded(colbert: HttpServer, reference: Any, role: dict[str, str]) -> None:
    expected = reference.encode_query([QUERY], convert_to_numpy=True)
    assert expected[0].shape == (20, WIDTH)
    assert close(embed(colbert, inputs=QUERY, **role), expected)


def test_a_response_with_details_says_what_was_read(
    colbert: HttpServer, documents: list[Any]
) -> None:
    response = embed(colbert, outputs=["multi"])
    assert close(response["multi"], documents)
    assert response["dimensions"] == WIDTH and response["model"] == "small"
    assert response["prompt"] == {"name": "document", "text": "[unused1] "}
    assert [entry["truncated"] for entry in response["inputs"]] == [
        *[False] * 2,
        True,
        *[False] * 2,
    ]
    assert embed(colbert, details=True)["multi"] == response["multi"]


def test_a_response_with_details_has_the_token_of_each_vector(colbert: HttpServer) -> None:
    def tokens(**body: Any) -> list[str]:
        [ids] = embed(colbert, outputs=["multi"], **body)["token_ids"]
        rows = {"ids": [[id] for id in ids], "skip_special_tokens": False}
        texts: list[str] = colbert.post("/decode", rows).json()
        return texts

    document = tokens(inputs="The work, is.")  # without punctuation
    assert document == ["[CLS]", "[unused1]", "the", "work", "is", "[SEP]"]
    query = tokens(inputs="the work, is", input_type="query")
    assert query == ["[CLS]", "[unused0]", "the", "work", ",", "is", "[SEP]", *["[MASK]"] * 13]


def test_vectors_in_base64_are_the_bytes_of_a_text(
    colbert: HttpServer, documents: list[Any]
) -> None:
    values = embed(colbert, encoding_format="base64")
    decoded = [
        np.frombuffer(base64.b64decode(value), np.float32).reshape(-1, WIDTH) for value in values
    ]
    assert close(decoded, documents)


def test_bytes_have_all_vectors_and_the_number_of_each_text(
    colbert: HttpServer, documents: list[Any]
) -> None:
    response = colbert.client.post(
        "/embed",
        json={"inputs": DOCUMENTS, "truncate": True},
        headers={"accept": "application/octet-stream"},
    )
    lengths = [int(length) for length in response.headers["x-lengths"].split(",")]
    rows = np.frombuffer(response.content, np.float32).reshape(-1, WIDTH)
    assert close(np.split(rows, np.cumsum(lengths)[:-1]), documents)


def test_jinas_route_returns_the_same(
    colbert: HttpServer, documents: list[Any], reference: Any
) -> None:
    body = {"model": "small", "input": DOCUMENTS, "truncate": True}
    response = colbert.client.post("/v1/multi-vector", json=body).json()
    assert close([entry["embeddings"] for entry in response["data"]], documents)
    assert [entry["index"] for entry in response["data"]] == [*range(len(DOCUMENTS))]
    query = colbert.client.post("/v1/multi-vector", json={"input": QUERY, "input_type": "query"})
    expected = reference.encode_query([QUERY], convert_to_numpy=True)
    assert close([entry["embeddings"] for entry in query.json()["data"]], expected)


@pytest.mark.parametrize(
    ("path", "body", "key"),
    [
        ("/rerank", {"texts": DOCUMENTS, "truncate": True}, None),
        ("/v1/rerank", {"documents": DOCUMENTS}, "results"),
        ("/v1/rerank", {"documents": DOCUMENTS, "truncation": True}, "data"),
        ("/v2/rerank", {"documents": DOCUMENTS, "model": "small"}, "results"),
    ],
    ids=str,
)
def test_documents_are_ranked_by_maxsim(
    colbert: HttpServer, scores: Any, path: str, body: dict[str, Any], key: str | None
) -> None:
    response = colbert.client.post(path, json={"query": QUERY, **body})
    assert response.status_code == 200, response.text
    results = response.json() if key is None else response.json()[key]
    assert [result["index"] for result in results] == np.argsort(-scores).tolist()
    score = "score" if key is None else "relevance_score"
    actual = [result[score] for result in results]
    np.testing.assert_allclose(actual, np.sort(scores)[::-1], rtol=1e-5)


def test_pairs_are_scored_in_their_order(colbert: HttpServer, scores: Any) -> None:
    body = {"text_1": QUERY, "text_2": DOCUMENTS, "truncate": True}
    data = colbert.client.post("/score", json=body).json()["data"]
    np.testing.assert_allclose([entry["score"] for entry in data], scores, rtol=1e-5)


def test_similarity_is_maxsim_of_queries_and_documents(colbert: HttpServer, scores: Any) -> None:
    def post(**body: Any) -> Any:
        return colbert.client.post("/similarity", json={"truncate": True, **body}).json()

    inputs = {"source_sentence": QUERY, "sentences": DOCUMENTS}
    np.testing.assert_allclose(post(inputs=inputs), scores, rtol=1e-5)
    matrix = post(a=[QUERY], b=DOCUMENTS)
    assert matrix["metric"] == "maxsim"
    np.testing.assert_allclose(matrix["scores"], [scores], rtol=1e-5)
    (top,) = post(a=QUERY, b=DOCUMENTS, top_k=2)["top"]
    assert [entry["index"] for entry in top] == np.argsort(-scores)[:2].tolist()
    pairs = post(a=[QUERY] * len(DOCUMENTS), b=DOCUMENTS, mode="pairwise", details=True)
    np.testing.assert_allclose(pairs["scores"], scores, rtol=1e-5)
    assert len(pairs["inputs"]["b"]) == len(DOCUMENTS)


def test_a_text_has_the_same_bytes_alone_and_with_others(colbert: HttpServer) -> None:
    together = embed(colbert)
    for text, matrix in zip(DOCUMENTS, together, strict=True):
        assert embed(colbert, inputs=[text]) == [matrix]


def test_info_says_what_the_model_is(colbert: HttpServer) -> None:
    info = colbert.client.get("/info").json()
    assert (info["task"], info["outputs"]) == ("multi_vector", ["multi"])
    assert info["rerank_score"] == "maxsim"


def test_documents_are_pooled_and_queries_are_not(
    colbert: HttpServer, documents: list[Any]
) -> None:
    expected = [pool_tokens(each, 3) for each in documents]
    assert [len(each) for each in expected] < [len(each) for each in documents]
    assert close(embed(colbert, pool_factor=3), expected)
    body = {"model": "small", "input": DOCUMENTS, "truncate": True, "pool_factor": 3}
    response = colbert.client.post("/v1/multi-vector", json=body).json()
    assert close([entry["embeddings"] for entry in response["data"]], expected)
    query = {"inputs": QUERY, "input_type": "query", "outputs": ["multi"]}
    assert embed(colbert, **query)["multi"] == embed(colbert, **query, pool_factor=3)["multi"]


def test_pooled_vectors_have_no_tokens(colbert: HttpServer, documents: list[Any]) -> None:
    response = embed(colbert, outputs=["multi"], pool_factor=2)
    assert close(response["multi"], [pool_tokens(each, 2) for each in documents])
    assert "token_ids" not in response
    assert "token_ids" in embed(colbert, inputs=QUERY, input_type="query", details=True)


def test_muvera_is_one_vector_of_each_text(
    colbert: HttpServer, documents: list[Any], reference: Any
) -> None:
    options = {"k_sim": 2, "dim_proj": 4, "r_reps": 3, "seed": 5}
    encoder = Muvera(WIDTH, *options.values())
    expected = np.stack([encoder.document(each) for each in documents])
    np.testing.assert_allclose(embed(colbert, muvera=options), expected, atol=1e-5)
    (query,) = embed(colbert, inputs=QUERY, input_type="query", muvera=options)
    (vectors,) = reference.encode_query([QUERY], convert_to_numpy=True)
    np.testing.assert_allclose(query, encoder.query(vectors), atol=1e-5)
    details = embed(colbert, muvera=options, details=True, encoding_format="base64")
    assert details["dimensions"] == 48 and len(details["inputs"]) == len(DOCUMENTS)
    rows = [np.frombuffer(base64.b64decode(row), np.float32) for row in details["embeddings"]]
    np.testing.assert_allclose(rows, expected, atol=1e-5)


def test_muvera_has_the_defaults_of_fastembed_and_takes_pooled_vectors(
    colbert: HttpServer, documents: list[Any]
) -> None:
    encoder = Muvera(WIDTH)
    rows = embed(colbert, muvera={}, pool_factor=2)
    expected = [encoder.document(pool_tokens(each, 2)) for each in documents]
    np.testing.assert_allclose(rows, expected, atol=1e-5)
    assert np.shape(rows) == (len(DOCUMENTS), 20 * 32 * 16)


LONG = "of and or " * 20


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/embed", {"inputs": LONG}, "input_too_long"),
        ("/embed", {"inputs": LONG, "on_overflow": "mean"}, "invalid_request"),
        ("/embed", {"inputs": "a", "outputs": ["dense"]}, "not_offered"),
        ("/embed", {"inputs": "a", "normalize": False}, "invalid_request"),
        ("/embed", {"inputs": "a", "partial": True}, "invalid_request"),
        ("/embed", {"inputs": "a", "dimensions": 8}, "dimensions_not_offered"),
        ("/v1/embeddings", {"input": "a", "model": "small"}, "not_offered"),
        ("/predict", {"inputs": "a"}, "not_offered"),
        ("/similarity", {"a": "a", "b": ["b"], "metric": "cosine"}, "invalid_request"),
        ("/similarity", {"a": [[1.0]], "b": [[1.0]]}, "invalid_request"),
        ("/rerank", {"query": "a", "texts": ["b"], "on_overflow": "max"}, "invalid_request"),
        ("/rerank", {"query": "a", "texts": [LONG]}, "input_too_long"),
        ("/rerank", {"query": "a", "texts": ["b"], "instruction": "c"}, "not_offered"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(
    colbert: HttpServer, path: str, body: dict[str, Any], code: str
) -> None:
    response = colbert.client.post(path, json=body)
    assert error(response, 400)["code"] == code


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"pool_factor": 0}, "pool_factor"),
        ({"pool_factor": 33}, "pool_factor"),
        ({"pool_factor": 2.5}, "pool_factor"),
        ({"muvera": {"k_sim": 11}}, "muvera"),
        ({"muvera": {"dim_proj": WIDTH + 1}}, "muvera"),
        ({"muvera": {"k_sim": 10, "r_reps": 64}}, "muvera"),
        ({"muvera": {}, "outputs": ["multi"]}, "muvera"),
        ({"muvera": {}, "dimensions": 8}, "dimensions"),
    ],
    ids=str,
)
def test_a_wrong_option_of_smaller_results_is_named(
    colbert: HttpServer, body: dict[str, Any], param: str
) -> None:
    response = colbert.client.post("/embed", json={"inputs": "a", **body})
    failure = error(response, response.status_code)
    assert (response.status_code in (400, 422), failure["param"]) == (True, param)


def test_one_vector_of_each_text_is_not_pooled(server: HttpServer) -> None:
    fault = error(server.post("/embed", {"inputs": "a", "pool_factor": 2}), 400)
    assert fault["param"] == "pool_factor" and '"outputs": ["multi"]' in fault["message"]
    fault = error(server.post("/embed", {"inputs": "a", "muvera": {}}), 400)
    assert fault["code"] == "not_offered"


def test_more_numbers_than_the_limit_are_refused(folder: Path, reference: Any) -> None:
    with local_server(folder, max_values=39 * WIDTH) as server:
        ids = {"inputs": ["a b c d e f g"] * 4}
        response = server.client.post("/embed", json=ids)
        assert error(response, 413)["code"] == "too_many_values"
        assert len(server.client.post("/embed", json={"inputs": "a b"}).json()) == 1
        muvera = {"inputs": "a b", "muvera": {}}
        assert error(server.client.post("/embed", json=muvera), 413)["code"] == "too_many_values"


@pytest.mark.full
def test_the_examples_of_the_documentation_run(colbert: HttpServer) -> None:
    page = (Path(__file__).parents[3] / "docs" / "multi-vector.md").read_text(encoding="utf-8")
    _, shell, _ = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    for command in shell.replace("localhost:8080", colbert.url).splitlines():
        done = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
        content = json.loads(done.stdout)
        assert isinstance(content, list) or not content.keys() & {"error", "message"}, content


def test_openais_route_returns_multivectors(colbert: HttpServer, documents: list[Any]) -> None:
    body = {"model": "small", "input": DOCUMENTS, "return_multivector": True, "truncate": True}
    data = colbert.client.post("/v1/embeddings", json=body).json()["data"]
    assert close([entry["embeddings"] for entry in data], documents)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/multi-vector", {"input": ["a"], "dimensions": 7}),
        ("/embed", {"inputs": "a", "outputs": ["multi"], "dimensions": 7}),
        ("/embed", {"inputs": "a", "outputs": ["dense", "multi"], "dimensions": 7}),
    ],
)
def test_a_dense_model_says_first_that_it_has_no_token_vectors(
    server: HttpServer, path: str, body: dict[str, Any]
) -> None:
    failure = error(server.post(path, body), 400)
    assert failure["code"] == "not_offered"
    assert failure["message"].startswith("this model has no multi vectors")
