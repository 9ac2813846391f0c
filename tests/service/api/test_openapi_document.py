"""The OpenAPI document: it is committed, and its examples are answered as it says."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema_rs
import pytest

from tests.service.api.committed import DOCUMENT
from tests.service.server import Server

OPERATIONS = [
    (method, path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]
JSON = "application/json"


def body_schema(operation: Any) -> Any:
    reference = operation["requestBody"]["content"][JSON]["schema"]["$ref"]
    return DOCUMENT["components"]["schemas"][reference.rpartition("/")[2]]


def bodies() -> Iterator[Any]:
    for method, path, operation in OPERATIONS:
        if method == "post":
            for example in body_schema(operation)["examples"]:
                yield pytest.param(path, example, id=f"{path} {json.dumps(example)}"[:70])


def ask(server: Server, method: str, path: str, body: Any = None) -> httpx.Response:
    told = DOCUMENT["paths"][path][method].get("parameters", [])
    given = {each["name"]: each["schema"]["examples"][0] for each in told if each["in"] == "path"}
    return server.client.request(method, path.format(**given), json=body)


def check(answer: httpx.Response, method: str, path: str) -> None:
    """Fails unless the document promises this answer."""
    promised = DOCUMENT["paths"][path][method]["responses"][str(answer.status_code)]
    if "$ref" in promised:
        promised = DOCUMENT["components"]["responses"][promised["$ref"].rpartition("/")[2]]
    for name, told in promised["headers"].items():
        header = DOCUMENT["components"]["headers"][name] if "$ref" in told else told
        assert name in answer.headers or not header.get("required"), name
    schema = promised["content"][answer.headers["content-type"].partition(";")[0]]["schema"]
    if answer.headers["content-type"] == JSON:
        valid(schema, answer.json())


def valid(schema: Any, value: Any) -> None:
    whole = {**schema, "components": DOCUMENT["components"]}
    jsonschema_rs.Draft202012Validator(whole).validate(value)


def test_the_committed_document_is_the_one_that_is_served(server: Server) -> None:
    served = server.client.get("/openapi.json").json()
    assert served == DOCUMENT, "write it again with `make openapi`"


def test_the_document_is_of_openapi_and_refers_to_nothing_that_is_not_there() -> None:
    assert DOCUMENT["openapi"].startswith("3.1.")
    for kind, name in re.findall(r'"#/components/(\w+)/([\w-]+)"', json.dumps(DOCUMENT)):
        assert name in DOCUMENT["components"][kind]
    jsonschema_rs.Draft202012Validator({"$defs": DOCUMENT["components"]["schemas"]})


@pytest.mark.parametrize(("path", "body"), [*bodies()])
def test_an_example_is_valid_and_answered_as_the_document_says(
    server: Server, path: str, body: Any
) -> None:
    valid(body_schema(DOCUMENT["paths"][path]["post"]), body)
    answer = ask(server, "post", path, body)
    assert answer.status_code == 200, answer.text
    check(answer, "post", path)


@pytest.mark.parametrize("path", [path for method, path, _ in OPERATIONS if method == "get"])
def test_what_is_got_is_as_the_document_says(server: Server, path: str) -> None:
    answer = ask(server, "get", path)
    assert answer.status_code == 200, answer.text
    check(answer, "get", path)


@pytest.mark.parametrize("path", [path for method, path, _ in OPERATIONS if method == "post"])
@pytest.mark.parametrize(
    ("status", "content", "headers"),
    [
        (400, b"{", {}),
        (400, b'{"unknown": 1}', {}),
        (413, b" " * (8 << 20) + b" ", {}),
        (415, b"{}", {"content-type": "text/html"}),
        (415, b"{}", {"content-encoding": "br"}),
    ],
)
def test_errors_are_as_the_document_says(
    server: Server, path: str, status: int, content: bytes, headers: dict[str, str]
) -> None:
    answer = server.client.post(path, content=content, headers=headers)
    assert answer.status_code == status
    check(answer, "post", path)


@pytest.mark.parametrize("media", ["application/octet-stream", "application/x-npy"])
@pytest.mark.parametrize(
    ("method", "path", "operation"), OPERATIONS, ids=[f"{o[0]} {o[1]}" for o in OPERATIONS]
)
def test_bytes_are_answered_where_the_document_has_them(
    server: Server, method: str, path: str, operation: Any, media: str
) -> None:
    body = {"inputs": "Hello, world"} if path in ("/embed", "/tokens") else None
    if method == "post" and body is None:
        body = body_schema(operation)["examples"][0]
    server.client.headers["accept"] = media
    try:
        answer = ask(server, method, path, body)
    finally:
        server.client.headers["accept"] = "*/*"
    offered = media in operation["responses"]["200"]["content"]
    assert (answer.headers["content-type"] == media) == offered
    check(answer, method, path)
