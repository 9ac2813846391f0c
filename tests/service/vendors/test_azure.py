"""Paths of OpenAI's API on Azure."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedwell_models.hub.sources import DEFAULT
from tests.service.local_server import local_server
from tests.service.server import HttpServer

ORIGIN = f"sentence-transformers/{DEFAULT}"
VERSION = "?api-version=2024-10-21"
ERROR = {"message", "type", "param", "code", "index", "request_id"}


@pytest.fixture(scope="module")
def locked(minilm_folder: Path) -> Iterator[HttpServer]:
    """A server that wants a key and takes small bodies only."""
    with local_server(minilm_folder, api_key="sesame", max_body_bytes=2000) as server:
        yield server


@pytest.mark.parametrize("name", [DEFAULT, ORIGIN, ORIGIN.replace("/", "%2F")])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"model": "text-embedding-3-small"},
        {"input_type": "string", "encoding_format": "base64", "user": "someone"},
        {"model": DEFAULT, "input_type": "query", "dimensions": None, "surprise": None},
    ],
)
def test_the_path_names_the_model(server: HttpServer, name: str, fields: dict[str, Any]) -> None:
    path = f"/openai/deployments/{name}/embeddings{VERSION}"
    response = server.post(path, {"input": ["a", "b"], **fields})
    assert response.status_code == 200, response.text
    plain = {key: fields[key] for key in fields.keys() & {"encoding_format"}}
    expected = server.post("/v1/embeddings", {"input": ["a", "b"], **plain}).json()
    own = {"id": response.headers["x-request-id"], "created": response.json()["created"]}
    assert response.json() == {**expected, **own}


def test_the_body_names_the_model_without_a_deployment(server: HttpServer) -> None:
    body = {"input": "a", "model": DEFAULT}
    response = server.post(f"/openai/v1/embeddings{VERSION}", {**body, "input_type": "string"})
    expected = server.post("/v1/embeddings", body).json()
    assert response.json()["data"] == expected["data"]


def test_models_are_listed(server: HttpServer) -> None:
    expected = server.client.get("/v1/models").json()
    for path in ("/openai/v1/models", "/openai/models"):
        assert server.client.get(f"{path}{VERSION}").json() == expected


@pytest.mark.parametrize(
    ("request_line", "content", "headers", "status", "code"),
    [
        ("POST deployments/other/embeddings", b'{"input": "a"}', {}, 404, "model_not_found"),
        ("POST v1/embeddings", b'{"input": "a", "model": "x"}', {}, 404, "model_not_found"),
        ("POST deployments/x/chat/completions", b"{}", {}, 404, "not_found"),
        ("GET v1/nowhere", b"", {}, 404, "not_found"),
        ("DELETE v1/embeddings", b"", {}, 405, "method_not_allowed"),
        ("POST v1/models", b"{}", {}, 405, "method_not_allowed"),
        ("POST v1/embeddings", b" " * 2001, {}, 413, "body_too_large"),
        ("POST v1/embeddings", b"{}", {"content-type": "text/html"}, 415, "unsupported_type"),
        ("POST v1/embeddings", b"{}", {"api-key": "none"}, 401, "invalid_api_key"),
        ("GET models", b"", {"api-key": "none"}, 401, "invalid_api_key"),
        ("POST v1/embeddings", b'{"input": "a", "x": 1}', {}, 400, "unknown_field"),
        ("POST v1/embeddings", b'{"input": "a", "input_type": 1}', {}, 400, "invalid_request"),
    ],
)
def test_errors_have_openais_shape(  # noqa: PLR0913, PLR0917 - a request and its error
    locked: HttpServer,
    request_line: str,
    content: bytes,
    headers: dict[str, str],
    status: int,
    code: str,
) -> None:
    method, path = request_line.split()
    url, sent = f"/openai/{path}{VERSION}", {"api-key": "sesame", **headers}
    response = locked.client.request(method, url, content=content, headers=sent)
    assert response.status_code == status
    error = response.json()["error"]
    assert error.keys() == ERROR and error["code"] == code


def test_an_error_of_a_deployment_names_the_field(server: HttpServer) -> None:
    path = f"/openai/deployments/{DEFAULT}/embeddings"
    refused = server.post(path, {"input": "a", "dimensions": 385})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "dimensions")
    refused = server.post(path, {"input": []})
    plain = server.post("/v1/embeddings", {"input": []})
    assert refused.json()["error"]["param"] == plain.json()["error"]["param"]
