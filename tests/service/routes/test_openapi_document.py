"""The OpenAPI document: it is committed, and its examples are answered as it says."""

import asyncio
import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
from fastapi import FastAPI

from embedwell.routes import openapi_document
from embedwell_models.hub.sources import resolve
from tests.docs.generated import assert_current
from tests.models.colbert import write_stanford
from tests.models.cross_encoder import write_cross_encoder
from tests.models.laya_model import write_laya
from tests.models.sparse_encoder import write_splade
from tests.service.local_server import local_server
from tests.service.routes.committed import DOCUMENT, JSON, check, check_schema, run_example
from tests.service.server import HttpServer, Server

OPERATIONS = [
    (method, path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
    if operation["tags"] != ["batches"]  # which need files: test_batches has them
]
NEED_ADMIN_KEY = {"/models/{name}/load", "/models/{name}/unload"}  # see test_several_models
WITH_BODY = [path for _, path, operation in OPERATIONS if "requestBody" in operation]


def body_schema(operation: Any) -> Any:
    reference = operation["requestBody"]["content"][JSON]["schema"]["$ref"]
    return DOCUMENT["components"]["schemas"][reference.rpartition("/")[2]]


def bodies() -> Iterator[Any]:
    for _, path, operation in OPERATIONS:
        if "requestBody" in operation:
            for example in body_schema(operation).get("examples", ()):
                yield pytest.param(path, example, id=f"{path} {json.dumps(example)}"[:70])


def send(server: HttpServer, method: str, path: str, body: Any = None) -> httpx.Response:
    parameters = DOCUMENT["paths"][path][method].get("parameters", [])
    values = {p["name"]: p["schema"]["examples"][0] for p in parameters if p["in"] == "path"}
    return server.client.request(method, path.format(**values), json=body)


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server of a small reranker, whose labels /predict and /classify return, too."""
    folder = write_cross_encoder(tmp_path_factory.mktemp("reranker"))
    with local_server(folder, served_name="reranker") as server:
        yield server


@pytest.fixture(scope="module")
def sparse_encoder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server of a small sparse encoder."""
    folder = write_splade(tmp_path_factory.mktemp("sparse") / "model")
    with local_server(folder, served_name="sparse") as server:
        yield server


@pytest.fixture(scope="module")
def colbert(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server of a small multi-vector model."""
    folder = tmp_path_factory.mktemp("colbert")
    write_stanford(folder)
    with local_server(folder, served_name="colbert") as server:
        yield server


@pytest.fixture(scope="module")
def decider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server of a small decision model."""
    folder = tmp_path_factory.mktemp("decider")
    model = write_laya(folder / "model", max_len=512)
    linked = resolve(str(model), cache=folder / "cache")
    with local_server(linked, served_name="laya") as server:
        yield server


@pytest.fixture(scope="module")
def nli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server of a small model of inference."""
    labels = {"0": "entailment", "1": "contradiction"}
    folder = write_cross_encoder(tmp_path_factory.mktemp("nli"), 2, id2label=labels)
    with local_server(folder, served_name="nli") as server:
        yield server


@pytest.fixture(scope="module")
def by_route(
    reranker: HttpServer,
    sparse_encoder: HttpServer,
    colbert: HttpServer,
    decider: HttpServer,
    nli: HttpServer,
) -> dict[str, HttpServer]:
    """The servers of other models than the default one, by the path or the tag of their routes."""
    rerankers = {"rerank": reranker, "classify": reranker}
    others = {"decide": decider, "/zero-shot-classification": nli}
    return {**rerankers, **others, "/embed_sparse": sparse_encoder, "/v1/multi-vector": colbert}


def test_the_committed_document_is_up_to_date(server: Server) -> None:
    committed, served = (
        json.dumps(document, indent=1, sort_keys=True)
        for document in (DOCUMENT, server.client.get("/openapi.json").json())
    )
    assert_current(committed, served, "make openapi")


def test_the_document_is_valid_openapi_without_dangling_references() -> None:
    assert DOCUMENT["openapi"].startswith("3.1.")
    for kind, name in re.findall(r'"#/components/(\w+)/([\w-]+)"', json.dumps(DOCUMENT)):
        assert name in DOCUMENT["components"][kind]
    jsonschema_rs.Draft202012Validator({"$defs": DOCUMENT["components"]["schemas"]})


def test_no_schema_is_named_by_its_module() -> None:
    # FastAPI adds the module to the names of classes that two modules have.
    assert not [name for name in DOCUMENT["components"]["schemas"] if "__" in name]


@pytest.mark.parametrize(("path", "body"), [*bodies()])
def test_examples_and_their_responses_match_the_document(
    server: Server, by_route: dict[str, HttpServer], path: str, body: Any
) -> None:
    operation = DOCUMENT["paths"][path]["post"]
    check_schema(body_schema(operation), body)
    [tag] = operation["tags"]
    response = send(by_route.get(path) or by_route.get(tag, server), "post", path, body)
    assert response.status_code == 200, response.text
    check(response, "post", path)


def test_every_field_and_parameter_is_described() -> None:
    fields = [
        (f"{name}.{field}", schema)
        for name, parent in DOCUMENT["components"]["schemas"].items()
        for field, schema in parent.get("properties", {}).items()
    ]
    parameters = [
        (f"{path} {parameter['name']}", parameter)
        for path, operations in DOCUMENT["paths"].items()
        for operation in operations.values()
        for parameter in operation.get("parameters", ())
    ]
    assert len(fields) > 900 and len(parameters) > 100
    for name, described in [*fields, *parameters]:
        description = described.get("description", "")
        advice = "its class describes it by a line - `name`: ….; or common_fields.py does"
        assert description.endswith("."), f"{name}: {advice}"
        assert "\n" not in description and not description.startswith("- "), name
    descriptions = {path: field["description"] for path, field in fields}
    assert descriptions["RerankRequest.top_k"] == "Voyage's name of `top_n`."
    assert descriptions["OllamaRequest.stream"].startswith("Ignored, because")  # of its base class
    assert descriptions["TextTokens.tokens"].startswith("The tokens, in the order")
    assert "- `" not in DOCUMENT["components"]["schemas"]["EmbedRequest"]["description"]


def test_every_response_header_is_described() -> None:
    def headers(value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            yield from value.get("headers", {}).items()
        nested = value.values() if isinstance(value, dict) else value
        for each in nested if isinstance(value, dict | list) else ():
            yield from headers(each)

    described = [(name, header) for name, header in headers(DOCUMENT) if "$ref" not in header]
    assert {"x-tokens", "x-lengths", "retry-after", "accept"} <= {name for name, _ in described}
    for name, header in described:
        assert header.get("description", "").endswith("."), name


def test_every_operation_has_an_example() -> None:
    lacking = [path for _, path, each in OPERATIONS if "x-codeSamples" not in each]
    assert not lacking, "give their bodies a model_config of `examples`"
    for methods in DOCUMENT["paths"].values():
        for operation in methods.values():
            [sample] = operation["x-codeSamples"]
            assert sample["source"].startswith("curl ")


def test_every_operation_has_an_id_of_its_own() -> None:
    count = Counter(
        operation["operationId"]
        for methods in DOCUMENT["paths"].values()
        for operation in methods.values()
    )
    repeated = [name for name, times in count.items() if times > 1]
    assert not repeated, "rename one of the functions of these routes"


@pytest.mark.parametrize(
    ("method", "path"),
    [(method, path) for method, path, _ in OPERATIONS if path not in NEED_ADMIN_KEY],
)
def test_the_example_of_each_operation_runs(
    server: Server, by_route: dict[str, HttpServer], tmp_path: Path, method: str, path: str
) -> None:
    [tag] = DOCUMENT["paths"][path][method]["tags"]
    run_example(method, path, (by_route.get(path) or by_route.get(tag, server)).url, tmp_path)


@pytest.mark.parametrize("path", [path for method, path, _ in OPERATIONS if method == "get"])
def test_responses_to_get_match_the_document(server: Server, path: str) -> None:
    response = send(server, "get", path)
    assert response.status_code == 200, response.text
    check(response, "get", path)


@pytest.mark.parametrize(
    "path", [path for _, path, operation in OPERATIONS if "requestBody" in operation]
)
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
def test_errors_match_the_document(
    server: Server, path: str, status: int, content: bytes, headers: dict[str, str]
) -> None:
    response = server.client.post(path, content=content, headers=headers)
    assert response.status_code == status
    check(response, "post", path)


@pytest.mark.parametrize("media", ["application/octet-stream", "application/x-npy"])
@pytest.mark.parametrize(
    ("method", "path", "operation"), OPERATIONS, ids=[f"{o[0]} {o[1]}" for o in OPERATIONS]
)
def test_binary_responses_match_the_document(
    server: Server, method: str, path: str, operation: Any, media: str
) -> None:
    body = {"inputs": "Hello, world"} if path in ("/embed", "/tokens") else None
    if "requestBody" in operation and body is None:
        body = body_schema(operation)["examples"][0]
    server.client.headers["accept"] = media
    try:
        response = send(server, method, path, body)
    finally:
        server.client.headers["accept"] = "*/*"
    offered = media in operation["responses"]["200"]["content"]
    assert (response.headers["content-type"] == media) == offered
    check(response, method, path)


def test_the_document_is_serialised_once_and_compressed_for_clients_that_accept_gzip(
    server: Server,
) -> None:
    plain = server.client.get("/openapi.json", headers={"accept-encoding": "identity"})
    small = server.client.get("/openapi.json", headers={"accept-encoding": "br, gzip"})
    assert "content-encoding" not in plain.headers and plain.headers["content-type"] == JSON
    assert small.headers["content-encoding"] == "gzip" and small.content == plain.content
    assert 8 * int(small.headers["content-length"]) < len(plain.content)
    assert plain.headers["vary"] == small.headers["vary"] == "accept-encoding"
    head = server.client.head("/openapi.json", headers={"accept-encoding": "identity"})
    assert head.headers["content-length"] == plain.headers["content-length"]


def test_a_request_for_the_document_does_not_serialise_it_again() -> None:
    class Described:
        calls = 0

        def openapi(self) -> dict[str, Any]:
            self.calls += 1
            return {"openapi": "3.1.0"}

    async def get(described: Described, encoding: str) -> bytes:
        app = FastAPI(openapi_url=None)
        app.openapi = described.openapi  # type: ignore[method-assign]
        app.router.routes.extend(openapi_document.router(None).routes)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://a") as it:
            for _ in range(3):
                response = await it.get("/openapi.json", headers={"accept-encoding": encoding})
        return response.content

    for encoding in ("gzip", "identity"):
        described = Described()
        assert json.loads(asyncio.run(get(described, encoding))) == {"openapi": "3.1.0"}
        assert described.calls == 1


def test_routes_are_grouped_by_described_tasks(server: Server) -> None:
    document = server.client.get("/openapi.json").json()
    names = [tag["name"] for tag in document["tags"]]
    assert names[:4] == ["embed", "compare", "rerank", "classify"]
    assert all(tag["description"].endswith(".") for tag in document["tags"])
    methods = document["paths"].values()
    used = [operation["tags"] for by_method in methods for operation in by_method.values()]
    wrong = {tag for [tag] in used} ^ {*names}
    assert not wrong, "the tag of a router is one of TAGS in openapi_document.py"


def test_the_docs_page_allows_only_its_own_script_and_style(server: Server) -> None:
    response = server.client.get("/docs")
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-inline" not in policy
    for tag in ("script", "style"):
        [content] = re.findall(f"<{tag}>(.*?)</{tag}>", response.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not re.search(r"<[^>]+ (style|on[a-z]+)=", response.text), "the policy forbids these"
