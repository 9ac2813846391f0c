"""Cross-origin resource sharing (CORS)."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import embedwell
from embedwell.routes.common.openapi_responses import EXPOSED_HEADERS
from tests.service.http.protocol.raw_http import connect
from tests.service.in_process_server import PausedApp, serve
from tests.service.local_server import local_server
from tests.service.routes.committed import DOCUMENT
from tests.service.server import HttpServer, Server

SERVER = Path(embedwell.__file__).parent
REQUEST_HEADERS = {"x-forwarded-host", "x-gzip", "authorization", "origin", "transfer-encoding"}
FOR_THE_BROWSER = {"connection", "x-content-type-options"}  # which scripts do not need
PAGE, OTHER = "https://page.example", "https://other.example"
KEY = {"authorization": "Bearer sesame"}
PREFLIGHT = {"origin": PAGE, "access-control-request-method": "POST"}
POST = b"POST /embed HTTP/1.1\r\nhost: localhost\r\norigin: https://page.example\r\n"


@pytest.fixture(scope="module")
def cors_server(minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a key for the pages of two origins."""
    origins = f"{PAGE},http://localhost:3000"
    limits: dict[str, Any] = {"max_body_bytes": 1000, "receive_timeout": 0.5}
    log = tmp_path_factory.mktemp("shared") / "log"
    with Server(log, cors_origins=origins, api_key="sesame", **limits) as server:
        yield server


def allowed_origin(response: httpx.Response) -> str | None:
    received: str | None = response.headers.get("access-control-allow-origin")
    return received


def preflight(server: HttpServer, **headers: str) -> httpx.Response:
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return server.client.options("/embed", headers={**PREFLIGHT, **headers})


def test_without_the_setting_there_are_no_cors_headers(server: Server) -> None:
    assert preflight(server).status_code == 403
    response = server.post("/embed", {"inputs": "a"}, origin=PAGE)
    assert response.status_code == 403 and "vary" not in response.headers
    assert not [name for name in response.headers if name.startswith("access-control")]


@pytest.mark.parametrize("origin", ["app://obsidian.md", "http://localhost:5173", "file://"])
def test_local_pages_may_read_responses_without_the_setting(server: Server, origin: str) -> None:
    allowed = preflight(server, origin=origin, access_control_request_headers="content-type")
    assert (allowed.status_code, allowed_origin(allowed)) == (200, origin)
    for body, status in (({"inputs": "a"}, 200), ({"input": "a"}, 400)):
        response = server.post("/embed", body, origin=origin)
        assert (response.status_code, allowed_origin(response)) == (status, origin)
        assert "access-control-allow-credentials" not in response.headers


def test_local_pages_may_read_responses_with_the_setting(cors_server: Server) -> None:
    response = cors_server.post("/embed", {"inputs": "a"}, origin="tauri://localhost", **KEY)
    assert allowed_origin(response) == "tauri://localhost"


@pytest.mark.parametrize(
    "requested_headers", ["authorization,content-type", "x-request-id,x-stainless-lang"]
)
def test_a_preflight_needs_no_key_and_allows_every_header(
    cors_server: Server, requested_headers: str
) -> None:
    response = preflight(cors_server, access_control_request_headers=requested_headers)
    assert (response.status_code, allowed_origin(response)) == (200, PAGE)
    assert response.headers["access-control-allow-headers"] == requested_headers
    assert response.headers["access-control-allow-methods"] == "DELETE, GET, HEAD, POST"
    assert "access-control-allow-credentials" not in response.headers
    assert "origin" in response.headers["vary"].lower()


def test_a_preflight_of_another_origin_or_method_is_refused(cors_server: Server) -> None:
    other = preflight(cors_server, origin=OTHER)
    assert (other.status_code, allowed_origin(other)) == (400, None)
    assert preflight(cors_server, access_control_request_method="PUT").status_code == 400


def test_only_listed_origins_may_read_a_response(cors_server: Server) -> None:
    for origin, expected in ((PAGE, PAGE), ("http://localhost:3000",) * 2, (OTHER, None)):
        response = cors_server.post("/embed", {"inputs": "a"}, origin=origin, **KEY)
        assert (response.status_code, allowed_origin(response)) == (200, expected)
        assert response.headers["vary"] == "Origin"
        assert "access-control-allow-credentials" not in response.headers


def test_a_preflight_allows_the_methods_of_all_routes(cors_server: Server) -> None:
    methods = {method.upper() for path in DOCUMENT["paths"].values() for method in path}
    assert "DELETE" in methods
    for method in methods:
        assert preflight(cors_server, access_control_request_method=method).status_code == 200


def test_all_headers_in_the_source_and_in_the_document_are_exposed() -> None:
    text = "".join(path.read_text() for path in SERVER.rglob("*.py"))
    literals = re.findall(r"""["'](x-[a-z-]+)["']|headers\[["']([a-z-]+)["']\]""", text)
    sent = {name for names in literals for name in names if name}
    described = {name.lower() for name in find_headers(DOCUMENT)}
    assert {"x-lengths", "x-tokens"} <= sent and {"x-tokens", "retry-after"} <= described
    assert (sent | described) - REQUEST_HEADERS - FOR_THE_BROWSER <= {*EXPOSED_HEADERS}


def find_headers(node: Any) -> Iterator[str]:
    """The names of all headers in responses of an OpenAPI document."""
    if isinstance(node, dict):
        headers = node.get("headers")
        yield from headers if isinstance(headers, dict) else ()
        for value in node.values():
            yield from find_headers(value)


@pytest.mark.parametrize("accept", ["application/json", "application/octet-stream"])
def test_all_custom_response_headers_are_exposed(cors_server: Server, accept: str) -> None:
    response = cors_server.post("/embed", {"inputs": "a"}, origin=PAGE, accept=accept, **KEY)
    exposed = response.headers["access-control-expose-headers"].split(", ")
    assert {name for name in response.headers if name.startswith("x-")} <= {*exposed}
    assert {"x-request-id", "x-tokens", "x-total-us", "retry-after"} < {*exposed}


@pytest.mark.parametrize(
    ("request_line", "body", "headers", "status"),
    [
        ("POST /embed", b'{"inputs": "a"}', {"authorization": "Bearer none"}, 401),
        ("POST /embed", b'{"input": "a"}', {}, 400),
        ("POST /nowhere", b"{}", {}, 404),
        ("DELETE /embed", b"", {}, 405),
        ("POST /embed", b" " * 1001, {}, 413),
        ("POST /embed", b"{}", {"content-type": "text/html"}, 415),
        ("POST /v2/embed", b"{}", {}, 400),
        ("GET /live", b"", {}, 200),
    ],
)
def test_errors_have_cors_headers(
    cors_server: Server, request_line: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    headers = {"origin": PAGE, **KEY, **headers}
    response = cors_server.client.request(*request_line.split(), content=body, headers=headers)
    assert (response.status_code, allowed_origin(response)) == (status, PAGE)


def test_a_timeout_has_cors_headers(cors_server: Server) -> None:
    with connect(cors_server) as client:
        client.sendall(POST + b"authorization: Bearer sesame\r\ncontent-length: 9\r\n\r\n{")
        received = client.recv(10_000)
    assert received.startswith(b"HTTP/1.1 408 ")
    assert b"\r\naccess-control-allow-origin: https://page.example\r\n" in received


def test_a_disconnect_cancels_a_cross_origin_request() -> None:
    async def disconnect() -> bytes:
        app = PausedApp()
        async with serve(app, cors_origins=PAGE) as server:
            async with server.client() as client:
                client.send(POST + b"content-length: 0\r\n\r\n")
                while not app.requests_started:
                    await asyncio.sleep(0.01)
            while not (text := server.metrics.render()).count(b'status="499"'):
                await asyncio.sleep(0.01)
            return text

    assert b'status="499"} 1.0' in asyncio.run(asyncio.wait_for(disconnect(), 120))


def test_a_star_allows_every_origin(minilm_folder: Path) -> None:
    with local_server(minilm_folder, cors_origins="*") as server:
        for response in (preflight(server), server.post("/embed", {"inputs": "a"}, origin=OTHER)):
            assert (response.status_code, allowed_origin(response)) == (200, "*")
            assert "access-control-allow-credentials" not in response.headers
