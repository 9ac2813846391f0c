"""The routes that Weaviate calls in place of its own containers."""

from collections.abc import Iterator

import numpy as np
import pytest

from tests.clients.conftest import PROMPTS
from tests.conftest import Folder
from tests.models.cross_encoder import write_cross_encoder
from tests.service.local_server import local_server
from tests.service.responses import error, vectors
from tests.service.routes.committed import check
from tests.service.server import HttpServer

TEXTS = ["A first text.", "Ein zweiter Text."]
SENT_ALWAYS = {"dims": 0, "vector": None, "error": ""}  # by Weaviate's transformers module


@pytest.fixture(scope="module")
def prompted(tiny_bert: Folder) -> Iterator[HttpServer]:
    """A server of a small model with prompts, which needs a key."""
    folder = tiny_bert({"config_sentence_transformers.json": {"prompts": PROMPTS}})
    with local_server(folder, served_name="tiny", dimensions="any", api_key="sesame") as server:
        server.client.headers["authorization"] = "Bearer sesame"
        yield server


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server of a small reranker."""
    folder = write_cross_encoder(tmp_path_factory.mktemp("reranker"))
    with local_server(folder, served_name="small") as server:
        yield server


@pytest.mark.parametrize(("task_type", "role"), [("query", "query"), ("passage", "document")])
def test_a_text_gets_the_vector_of_its_role(
    prompted: HttpServer, task_type: str, role: str
) -> None:
    config = {"pooling_strategy": "masked_mean", "task_type": task_type, "dimensions": 8}
    response = prompted.post("/vectors", {"text": TEXTS[0], "config": config, **SENT_ALWAYS})
    assert response.status_code == 200, response.text
    check(response, "post", "/vectors")
    [expected] = vectors(
        prompted.post("/embed", {"inputs": TEXTS[:1], "input_type": role, "dimensions": 8})
    )
    content = response.json()
    assert (content["text"], content["dim"]) == (TEXTS[0], 8)
    np.testing.assert_array_equal(np.float32(content["vector"]), expected)


def test_texts_get_a_vector_each(prompted: HttpServer) -> None:
    response = prompted.post("/vectors", {"texts": TEXTS, "config": {"task_type": "passage"}})
    check(response, "post", "/vectors")
    body = {"inputs": TEXTS, "input_type": "document"}
    expected = prompted.post("/embed", body).json()
    assert response.json() == {"vectors": expected, "dims": len(expected[0])}


@pytest.mark.parametrize(
    ("body", "param"),
    [({}, "text"), ({"text": "a", "texts": ["b"]}, "text"), ({"text": "a", "id": 1}, "id")],
)
def test_an_invalid_body_is_refused(
    prompted: HttpServer, body: dict[str, object], param: str
) -> None:
    response = prompted.post("/vectors", body)
    assert error(response, 400)["param"] == param
    assert isinstance(response.json()["error"], str)


def test_weaviate_waits_until_the_server_is_ready(prompted: HttpServer) -> None:
    for path in ("/.well-known/live", "/.well-known/ready"):
        response = prompted.client.get(path, headers={"authorization": ""})
        assert (response.status_code, response.content) == (204, b"")
    assert prompted.client.get("/meta").json() == {"model": "tiny", "models": ["tiny"]}


def test_documents_of_weaviate_keep_their_order(reranker: HttpServer) -> None:
    body = {"query": "a copyright", "documents": TEXTS}
    response = reranker.post("/rerank", {**body, "property": ""})
    assert response.status_code == 200, response.text
    check(response, "post", "/rerank")
    ranks = reranker.post("/rerank", body).json()["results"]
    scores = {TEXTS[rank["index"]]: rank["relevance_score"] for rank in ranks}
    assert response.json() == {
        "query": body["query"],
        "scores": [{"document": text, "score": scores[text]} for text in TEXTS],
        "property": None,
        "score": None,
    }
