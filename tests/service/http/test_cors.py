"""What browsers are told of pages of other origins."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.in_process_server import PausedApp, serve
from tests.service.local_server import local_server
from tests.service.server import HttpServer, Server

PAGE, OTHER = "https://page.example", "https://other.example"
KEY = {"authorization": "Bearer sesame"}
ASKS = {"origin": PAGE, "access-control-request-method": "POST"}
POST = b"POST /embed HTTP/1.1\r\nhost: localhost\r\norigin: https://page.example\r\n"


@pytest.fixture(scope="module")
def shared(minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a key for the pages of two origins."""
    origins = f"{PAGE},http://localhost:3000"
    limits: dict[str, Any] = {"max_body_bytes": 1000, "receive_timeout": 0.5}
    log = tmp_path_factory.mktemp("shared") / "log"
    with Server(log, cors_origins=origins, api_key="sesame", **limits) as running:
        yield running


def allowed(answer: httpx.Response) -> str | None:
    found: str | None = answer.headers.get("access-control-allow-origin")
    return found


def preflight(server: HttpServer, **headers: str) -> httpx.Response:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return server.client.options("/embed", headers={**ASKS, **given})


def test_without_the_setting_nothing_is_told(server: Server) -> None:
    assert preflight(server).status_code == 403
    answer = server.post("/embed", {"inputs": "a"}, origin=PAGE)
    assert answer.status_code == 403 and "vary" not in answer.headers
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("asked", ["authorization,content-type", "x-request-id,x-stainless-lang"])
def test_a_preflight_needs_no_key_and_lets_every_header_be_sent(shared: Server, asked: str) -> None:
    answer = preflight(shared, access_control_request_headers=asked)
    assert (answer.status_code, allowed(answer)) == (200, PAGE)
    assert answer.headers["access-control-allow-headers"] == asked
    assert answer.headers["access-control-allow-methods"] == "GET, HEAD, POST"
    assert "access-control-allow-credentials" not in answer.headers
    assert "origin" in answer.headers["vary"].lower()


def test_a_preflight_of_another_origin_or_method_is_refused(shared: Server) -> None:
    stranger = preflight(shared, origin=OTHER)
    assert (stranger.status_code, allowed(stranger)) == (400, None)
    assert preflight(shared, access_control_request_method="DELETE").status_code == 400


def test_an_answer_may_be_read_by_the_pages_of_the_origins_alone(shared: Server) -> None:
    for origin, told in ((PAGE, PAGE), ("http://localhost:3000",) * 2, (OTHER, None)):
        answer = shared.post("/embed", {"inputs": "a"}, origin=origin, **KEY)
        assert (answer.status_code, allowed(answer)) == (200, told)
        assert answer.headers["vary"] == "Origin"
        assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize("accept", ["application/json", "application/octet-stream"])
def test_every_header_of_an_answer_that_is_ours_may_be_read(shared: Server, accept: str) -> None:
    answer = shared.post("/embed", {"inputs": "a"}, origin=PAGE, accept=accept, **KEY)
    exposed = answer.headers["access-control-expose-headers"].split(", ")
    assert {name for name in answer.headers if name.startswith("x-")} <= {*exposed}
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
def test_an_error_may_be_read_as_well(
    shared: Server, request_line: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    given = {"origin": PAGE, **KEY, **headers}
    answer = shared.client.request(*request_line.split(), content=body, headers=given)
    assert (answer.status_code, allowed(answer)) == (status, PAGE)


def test_a_body_that_does_not_come_is_told_to_the_page(shared: Server) -> None:
    name, port = shared.url.removeprefix("http://").split(":")
    with socket.create_connection((name, int(port)), timeout=120) as client:
        client.sendall(POST + b"authorization: Bearer sesame\r\ncontent-length: 9\r\n\r\n{")
        found = client.recv(10_000)
    assert found.startswith(b"HTTP/1.1 408 ")
    assert b"\r\naccess-control-allow-origin: https://page.example\r\n" in found


def test_a_page_that_is_left_takes_its_work_out_of_the_queue() -> None:
    async def leave() -> bytes:
        held = PausedApp()
        async with serve(held, cors_origins=PAGE) as running:
            async with running.client() as client:
                client.send(POST + b"content-length: 0\r\n\r\n")
                while not held.requests_started:
                    await asyncio.sleep(0.01)
            while not (text := running.metrics.text()).count(b'status="499"'):
                await asyncio.sleep(0.01)
            return text

    assert b'status="499"} 1.0' in asyncio.run(asyncio.wait_for(leave(), 10))


def test_with_a_star_the_pages_of_every_origin_may_read(minilm_folder: Path) -> None:
    with local_server(minilm_folder, cors_origins="*") as server:
        for answer in (preflight(server), server.post("/embed", {"inputs": "a"}, origin=OTHER)):
            assert (answer.status_code, allowed(answer)) == (200, "*")
            assert "access-control-allow-credentials" not in answer.headers
