"""The routes of Hugging Face's hosted models, as their clients ask them."""

from collections.abc import Iterator
from typing import Any

import pytest

from models.hub.sources import DEFAULT
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
    ],
)
def test_texts_get_a_list_of_vectors(
    server: HttpServer, path: str, name: str, fields: dict[str, object]
) -> None:
    body = {"inputs": TEXTS, **fields}
    answer = server.post(path.format(name), body)
    assert answer.status_code == 200, answer.text
    assert answer.content == server.post("/embed", body).content
    assert answer.headers["x-tokens"] == "14" and len(answer.json()) == 2


@pytest.mark.parametrize("path", PATHS)
def test_bytes_are_answered_where_they_are_accepted(server: HttpServer, path: str) -> None:
    accept = {"accept": "application/octet-stream"}
    answer = server.post(path.format(DEFAULT), {"inputs": TEXTS}, **accept)
    assert answer.headers["x-shape"] == "2,384"
    assert answer.content == server.post("/embed", {"inputs": TEXTS}, **accept).content


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ["org/other", "other", "org%2Fother", f"x/{DEFAULT}"])
def test_another_model_is_not_found(server: HttpServer, path: str, name: str) -> None:
    found = error(server.post(path.format(name), {"inputs": "x"}), 404)
    assert found["code"] == "model_not_found" and DEFAULT in found["message"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ["a/b/c", f"{DEFAULT}/", ""])
def test_a_name_has_one_slash_at_most(locked: HttpServer, path: str, name: str) -> None:
    """Even where any name is accepted."""
    key = {"authorization": "Bearer sesame"}
    answer = locked.client.post(path.format(name), json={"inputs": "x"}, headers=key)
    assert error(answer, 404)["code"] == "not_found"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({"inputs": [5.5]}, "invalid_request", "inputs"),
        ({"inputs": "x", "normalise": True}, "unknown_field", "normalise"),
        ({}, "invalid_request", "inputs"),
    ],
)
def test_a_wrong_body_is_told_as_text(
    server: HttpServer, path: str, body: dict[str, object], code: str, param: str
) -> None:
    answer = server.post(path.format(ORIGIN), body)
    assert answer.status_code == 400 and isinstance(answer.json()["error"], str)
    assert (answer.json()["code"], answer.json()["param"]) == (code, param)


@pytest.mark.parametrize("path", PATHS)
def test_the_key_the_prefix_and_the_limits_hold_there_too(locked: HttpServer, path: str) -> None:
    url, key = path.format("org/any"), {"authorization": "Bearer sesame"}
    assert locked.post(url, {"inputs": "x"}).status_code == 401
    for prefix in ("", "/prefix"):
        client, body = locked.client, {"inputs": "x"}
        found = client.post(f"{_root(locked)}{prefix}{url}", json=body, headers=key)
        assert found.status_code == 200, found.text
    large = locked.client.post(url, json={"inputs": "x" * 2000}, headers=key)
    assert large.status_code == 413
    typed = locked.client.post(url, content=b"{}", headers={**key, "content-type": "text/html"})
    assert typed.status_code == 415


def _root(server: HttpServer) -> str:
    return server.url.removesuffix("/prefix")


def test_they_are_counted_by_their_route(server: HttpServer) -> None:
    server.post(f"/models/{ORIGIN}/pipeline/feature-extraction", {"inputs": "x"})
    metrics = server.client.get("/metrics").text
    assert 'path="/models/{organisation}/{name}/pipeline/feature-extraction"' in metrics
    assert f'path="/models/{ORIGIN}' not in metrics


@pytest.mark.parametrize("path", PATHS)
def test_they_are_posted_to(server: HttpServer, path: str) -> None:
    answer = server.client.get(path.format(DEFAULT))
    assert answer.status_code == 405 and answer.headers["allow"] == "POST"
