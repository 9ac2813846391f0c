"""The configurations of nginx, HAProxy and Caddy, each with the real program."""

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.conftest import Folder
from tests.gateways import GATEWAYS, Proxy, Upstream
from tests.service.local_server import local_server
from tests.service.server import HttpServer, error_of

pytestmark = pytest.mark.full

HEALTH_CHECKING = ["haproxy", "caddy"]
KEY = {"authorization": "Bearer secret"}


@pytest.fixture(scope="module")
def protected(tiny_bert: Folder) -> Iterator[HttpServer]:
    """A server that needs a key."""
    with local_server(tiny_bert(), api_key="secret") as server:
        yield server


@pytest.fixture(scope="module", params=GATEWAYS)
def gateway(
    request: pytest.FixtureRequest,
    protected: HttpServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("gateway")
    with GATEWAYS[request.param](folder, protected.url.removeprefix("http://")) as gateway:
        yield gateway


def test_keys_ids_and_responses_are_passed_on(gateway: Proxy, protected: HttpServer) -> None:
    body, headers = {"inputs": "through it"}, {**KEY, "x-request-id": "mine"}
    response = httpx.post(f"{gateway.url}/embed", json=body, headers=headers, timeout=60)
    assert response.content == protected.post("/embed", body, **KEY).content
    assert response.headers["x-request-id"] == "mine" and int(response.headers["x-tokens"]) > 0
    without_key = httpx.post(f"{gateway.url}/embed", json=body, timeout=120)
    assert without_key.status_code == 401 and error_of(without_key)["code"] == "invalid_api_key"


def test_a_too_large_body_is_refused_in_json(gateway: Proxy) -> None:
    response = httpx.post(
        f"{gateway.url}/embed", content=b"x" * (8 * 2**20 + 1), headers=KEY, timeout=120
    )
    assert response.status_code == 413 and error_of(response)["code"] == "body_too_large"
    assert (
        httpx.post(
            f"{gateway.url}/embed", json={"inputs": "a"}, headers=KEY, timeout=120
        ).status_code
        == 200
    )


def test_a_body_as_large_as_the_server_takes_passes(gateway: Proxy) -> None:
    body = b'{"inputs": "a"}'.ljust(8 * 2**20)
    response = httpx.post(f"{gateway.url}/embed", content=body, headers=KEY, timeout=60)
    assert response.status_code == 200


def test_metrics_are_not_reachable(gateway: Proxy, protected: HttpServer) -> None:
    assert protected.client.get("/metrics").status_code == 200
    response = httpx.get(f"{gateway.url}/metrics", timeout=120)
    assert response.status_code == 404 and error_of(response)["code"] == "not_found"
    assert "ask each server itself" in error_of(response)["message"]
    assert response.headers["content-type"].startswith("application/json")


@contextlib.contextmanager
def before(name: str, folder: Path, *upstreams: Upstream) -> Iterator[Callable[[], int]]:
    """Run a gateway before servers; yields a function that sends a request: its status."""
    with contextlib.ExitStack() as stack:
        hosts = [stack.enter_context(upstream).host for upstream in upstreams]
        gateway = stack.enter_context(GATEWAYS[name](folder, *hosts))
        client = stack.enter_context(httpx.Client(base_url=gateway.url, timeout=60))
        yield lambda: client.post("/embed", json={"inputs": "a"}).status_code


@pytest.mark.parametrize("status", [500, 429])
@pytest.mark.parametrize("name", GATEWAYS)
def test_a_request_that_failed_or_came_too_soon_is_never_repeated(
    name: str, status: int, tmp_path: Path
) -> None:
    upstreams = Upstream(status), Upstream(status)
    with before(name, tmp_path, *upstreams) as send:
        assert {send() for _ in range(10)} == {status}
        assert sum(upstream.posts for upstream in upstreams) == 10


@pytest.mark.parametrize("name", ["nginx", "haproxy"])
def test_a_request_refused_by_a_draining_server_is_sent_to_another(
    name: str, tmp_path: Path
) -> None:
    draining, other = Upstream(503), Upstream(200)
    with before(name, tmp_path, draining, other) as send:
        assert {send() for _ in range(10)} == {200}
        assert 0 < draining.posts <= other.posts == 10


@pytest.mark.parametrize("name", HEALTH_CHECKING)
def test_a_server_that_is_not_ready_gets_no_requests(name: str, tmp_path: Path) -> None:
    draining, other = Upstream(200), Upstream(200)
    with before(name, tmp_path, draining, other) as send:
        deadline, draining.ready, seen = time.monotonic() + 60, 503, -1
        while draining.posts > seen:  # until fifty requests in a row have gone to the other
            seen = draining.posts
            assert {send() for _ in range(50)} == {200} and time.monotonic() < deadline
        assert other.posts >= 50


HEAD = b"POST /embed HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "chunk",
    [b"no chunk\r\n\r\n", b"%x\r\n%s" % (9 << 20, b" " * (9 << 20))],
    ids=["malformed", "9 MB"],
)
def test_a_client_whose_body_is_refused_takes_no_server_away(gateway: Proxy, chunk: bytes) -> None:
    host, port = gateway.url.removeprefix("http://").split(":")
    for _ in range(10):
        with (
            socket.create_connection((host, int(port)), timeout=60) as client,
            contextlib.suppress(ConnectionError),
        ):
            client.sendall(HEAD + chunk)
            client.recv(1000)
        response = httpx.post(
            f"{gateway.url}/embed", json={"inputs": "a"}, headers=KEY, timeout=120
        )
        assert response.status_code == 200
