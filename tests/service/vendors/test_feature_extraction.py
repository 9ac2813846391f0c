"""Routes of Hugging Face's hosted models."""

from collections.abc import Iterator
from typing import Any

import pytest

from embedwell_models.hub.sources import DEFAULT
from tests.conftest import Folder
from tests.service.local_server import local_server
from tests.service.responses import error
from tests.service.server import HttpServer

ORIGIN = f"sentence-transformers/{DEFAULT}"
TEXTS = ["A first text.", "Ein zweiter Text."]
PATHS = [
    "/models/{}/pipeline/feature-extraction",
    "/pipeline/feature-extraction/{}",
    "/models/{}",
    "/hf-inference/models/{}/pipeline/feature-extraction",
    "/hf-inference/models/{}",
]
SIMILARITY_PATHS = [
    "/models/{}/pipeline/sentence-similarity",
    "/hf-inference/models/{}/pipeline/sentence-similarity",
    "/pipeline/sentence-similarity/{}",
]


@pytest.fixture(scope="module")
def locked(tiny_bert: Folder) -> Iterator[HttpServer]:
    """A server behind a prefix that wants a key, for a model of any name."""
    settings: dict[str, Any] = {"served_name": "*", "api_key": "sesame", "root_path": "/prefix"}
    with local_server(tiny_bert(), max_body_bytes=2000, **settings) as running:
        yield running


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", [DEFAULT, ORIGIN])
@pytest.mark.parametrize(
    "fields",
    [
        {"options": {"wait_for_model": True}},  # LangChain4j
        {"options": {"wait_for_model": True, "use_cache": None}},
        {"normalize": True, "truncate": None, "truncation_direction": "right"},  # huggingface_hub
        {"normalize": False, "dimensions": None},  # @huggingface/inference
        {"use_gpu": False, "wait_for_model": True, "use_cache": True},  # langchaingo
    ],
)
def test_texts_get_a_list_of_vectors(
    server: HttpServer, path: str, name: str, fields: dict[str, object]
) -> None:
    body = {"inputs": TEXTS, **fields}
    response = server.post(path.format(name), body)
    assert response.status_code == 200, response.text
    assert response.content == server.post("/embed", body).content
    assert response.headers["x-tokens"] == "14" and len(response.json()) == 2


@pytest.mark.parametrize("path", [*PATHS, "/embed", "/"])
def test_fields_in_parameters_are_those_next_to_inputs(server: HttpServer, path: str) -> None:
    fields = {"normalize": False, "truncate": True, "truncation_direction": "Left"}
    body = {"inputs": [TEXTS[0], "a long text " * 200], "options": {"use_cache": False}}
    response = server.post(path.format(DEFAULT), {**body, "parameters": fields})
    assert response.status_code == 200, response.text
    assert response.content == server.post("/embed", {**body, **fields}).content
    assert response.content != server.post("/embed", body).content
    twice = {**body, "parameters": fields, "normalize": True}
    fault = error(server.post(path.format(DEFAULT), twice), 400)
    assert fault["param"] == "normalize" and "parameters" in fault["message"]
    unknown = {**body, "parameters": {"inputs": "x"}}
    assert error(server.post(path.format(DEFAULT), unknown), 400)["code"] == "unknown_field"


@pytest.mark.parametrize("path", SIMILARITY_PATHS)
@pytest.mark.parametrize("name", [DEFAULT, ORIGIN])
def test_sentences_get_their_similarity(server: HttpServer, path: str, name: str) -> None:
    inputs = {"source_sentence": TEXTS[0], "sentences": TEXTS}
    response = server.post(path.format(name), {"inputs": inputs, "wait_for_model": True})
    assert response.status_code == 200, response.text
    assert response.content == server.post("/similarity", {"inputs": inputs}).content
    other = server.post(path.format("other"), {"inputs": inputs})
    assert error(other, 404)["code"] == "model_not_found"


@pytest.mark.parametrize("path", PATHS)
def test_an_accept_header_selects_bytes(server: HttpServer, path: str) -> None:
    accept = {"accept": "application/octet-stream"}
    response = server.post(path.format(DEFAULT), {"inputs": TEXTS}, **accept)
    assert response.headers["x-shape"] == "2,384"
    assert response.content == server.post("/embed", {"inputs": TEXTS}, **accept).content


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ["org/other", "other", "org%2Fother", f"x/{DEFAULT}"])
def test_another_model_is_not_found(server: HttpServer, path: str, name: str) -> None:
    fault = error(server.post(path.format(name), {"inputs": "x"}), 404)
    assert fault["code"] == "model_not_found" and DEFAULT in fault["message"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ["a/b/c", "a//b/c"])
def test_a_name_has_one_slash_at_most(locked: HttpServer, path: str, name: str) -> None:
    """Even where any name is accepted."""
    key = {"authorization": "Bearer sesame"}
    response = locked.client.post(path.format(name), json={"inputs": "x"}, headers=key)
    assert error(response, 404)["code"] == "not_found"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({"inputs": [5.5]}, "invalid_request", "inputs"),
        ({"inputs": "x", "normalise": True}, "unknown_field", "normalise"),
        ({}, "invalid_request", "inputs"),
    ],
)
def test_the_error_of_an_invalid_body_is_a_string(
    server: HttpServer, path: str, body: dict[str, object], code: str, param: str
) -> None:
    response = server.post(path.format(ORIGIN), body)
    assert response.status_code == 400 and isinstance(response.json()["error"], str)
    assert (response.json()["code"], response.json()["param"]) == (code, param)


@pytest.mark.parametrize("path", PATHS)
def test_the_error_of_a_text_names_its_field_and_index(server: HttpServer, path: str) -> None:
    body = {"inputs": ["a", "word " * 600], "parameters": {"truncate": False}}
    error = server.post(path.format(ORIGIN), body).json()
    assert (error["param"], error["index"]) == ("inputs", 1)


@pytest.mark.parametrize("path", PATHS)
def test_key_prefix_and_limits_apply(locked: HttpServer, path: str) -> None:
    url, key = path.format("org/any"), {"authorization": "Bearer sesame"}
    assert locked.post(url, {"inputs": "x"}).status_code == 401
    for prefix in ("", "/prefix"):
        client, body = locked.client, {"inputs": "x"}
        response = client.post(f"{_root(locked)}{prefix}{url}", json=body, headers=key)
        assert response.status_code == 200, response.text
    large = locked.client.post(url, json={"inputs": "x" * 2000}, headers=key)
    assert large.status_code == 413
    typed = locked.client.post(url, content=b"{}", headers={**key, "content-type": "text/html"})
    assert typed.status_code == 415


def _root(server: HttpServer) -> str:
    return server.url.removesuffix("/prefix")


def test_metrics_count_requests_by_route(server: HttpServer) -> None:
    server.post(f"/models/{ORIGIN}/pipeline/feature-extraction", {"inputs": "x"})
    metrics = server.client.get("/metrics").text
    assert 'path="/models/{organisation}/{name}/pipeline/feature-extraction"' in metrics
    assert f'path="/models/{ORIGIN}' not in metrics


@pytest.mark.parametrize("path", PATHS)
def test_get_is_not_allowed(server: HttpServer, path: str) -> None:
    response = server.client.get(path.format(DEFAULT))
    assert response.status_code == 405 and response.headers["allow"] == "POST"
