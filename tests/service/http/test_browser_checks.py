"""Which hosts a server without a key is asked for, and which pages may ask."""

import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from service.errors import Forbidden
from service.http.browser_checks import BrowserChecks
from tests.service.local_server import local_server
from tests.service.server import HttpServer, Server

NAME = socket.gethostname()
BODY = {"inputs": "a"}


def refuses(checks: BrowserChecks, host: str, **headers: str) -> str | None:
    """The code with which a request is refused, if it is."""
    given = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    try:
        checks.check({b"host": host.encode(), **given})
    except Forbidden as error:
        return error.code
    return None


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "::1", "127.0.0.53"])
@pytest.mark.parametrize(
    ("host", "code"),
    [
        *(("localhost:8080", None), ("LocalHost.", None), ("127.0.0.1:8080", None)),
        *(("[::1]:8080", None), ("192.168.0.7", None), (NAME.upper(), None)),
        *(
            ("evil.example", "host_not_allowed"),
            ("localhost.evil.example:8080", "host_not_allowed"),
        ),
        *(("127.0.0.1.evil.example", "host_not_allowed"), ("", "host_not_allowed")),
    ],
)
def test_on_a_loopback_address_and_without_a_key_the_host_is_the_machine(
    address: str, host: str, code: str | None
) -> None:
    checks = BrowserChecks.of(address, "", "", has_key=False)
    assert refuses(checks, host) == code
    assert refuses(BrowserChecks.of(address, "", "", has_key=True), host) is None
    assert refuses(BrowserChecks.of(address, "*", "", has_key=False), host) is None


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.0.7", "server.example"])
def test_elsewhere_any_host_may_be_asked_for(address: str) -> None:
    checks = BrowserChecks.of(address, "", "", has_key=False)
    for host in ("embedding:8080", "embedding.default.svc.cluster.local", "api.example"):
        assert refuses(checks, host) is None


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_hosts_that_are_listed_are_the_only_ones(address: str) -> None:
    checks = BrowserChecks.of(address, "api.example,other.example", "", has_key=False)
    assert refuses(checks, "API.example:443") is None and refuses(checks, "127.0.0.1") is None
    assert refuses(checks, "evil.example") == "host_not_allowed"


def test_a_request_without_a_host_is_of_no_browser() -> None:
    BrowserChecks.of("127.0.0.1", "", "", has_key=False).check({})


@pytest.mark.parametrize(
    ("host", "headers", "allowed"),
    [
        ("localhost:8080", {"origin": "http://localhost:8080"}, True),
        ("api.example", {"origin": "https://api.example"}, True),
        ("api.example:443", {"origin": "https://api.example"}, True),
        ("embedding:8080", {"origin": "https://api.example"}, False),
        (
            "embedding:8080",
            {"origin": "https://api.example", "x_forwarded_host": "api.example, proxy"},
            True,
        ),
        ("localhost:8080", {"origin": "https://page.example"}, True),
        ("localhost:8080", {"origin": "https://evil.example"}, False),
        ("localhost:8080", {"origin": "http://localhost:9999"}, False),
        ("localhost:8080", {"origin": "null"}, False),
        ("", {"origin": "https://"}, False),
    ],
)
def test_a_page_may_ask_its_own_server_and_those_that_list_it(
    host: str, headers: dict[str, str], allowed: bool
) -> None:
    checks = BrowserChecks.of("0.0.0.0", "", "https://page.example", has_key=False)
    assert refuses(checks, host, **headers) == (None if allowed else "origin_not_allowed")
    assert refuses(BrowserChecks("*", "*"), host, **headers) is None
    assert refuses(BrowserChecks.of("0.0.0.0", "", "", has_key=True), host, **headers) is None


def test_a_page_elsewhere_cannot_make_its_visitor_ask(server: Server) -> None:
    headers = {"origin": "https://evil.example", "content-type": "text/plain"}
    found = server.client.post("/v1/embeddings", json={"input": "a"}, headers=headers)
    assert found.status_code == 403 and found.json()["error"]["code"] == "origin_not_allowed"
    found = server.client.get("/info", headers={"host": "evil.example"})
    assert found.status_code == 403 and "EMBEDDING_ALLOWED_HOSTS" in found.text
    own = {"origin": server.url, "content-type": "text/plain"}
    assert server.client.post("/embed", json=BODY, headers=own).status_code == 200


@pytest.fixture(scope="module")
def keyed(minilm_folder: Path) -> Iterator[HttpServer]:
    with local_server(minilm_folder, api_key="sesame") as running:
        yield running


def test_with_a_key_neither_host_nor_origin_matters(keyed: HttpServer) -> None:
    headers = {"host": "evil.example", "origin": "https://evil.example"}
    assert keyed.client.post("/embed", json=BODY, headers=headers).status_code == 401
    headers["authorization"] = "Bearer sesame"
    assert keyed.client.post("/embed", json=BODY, headers=headers).status_code == 200
    assert httpx.get(f"{keyed.url}/docs", headers={"origin": keyed.url}).status_code == 200
