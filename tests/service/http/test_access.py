"""Keys, and checks of the Host and Origin headers on a server without a key."""

import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from embedwell.errors import Forbidden, Unauthorized
from embedwell.http.access import ApiKeys, BrowserChecks, is_local_origin
from tests.service.local_server import local_server
from tests.service.server import HttpServer, Server


def is_refused(keys: ApiKeys, authorization: bytes | None) -> bool:
    try:
        keys.check({} if authorization is None else {b"authorization": authorization})
    except Unauthorized:
        return True
    return False


@pytest.mark.parametrize(
    "authorization", [b"Bearer old", b"bearer new", b"BEARER  new ", "Bearer né".encode()]
)
def test_any_of_the_keys_is_accepted(authorization: bytes) -> None:
    assert not is_refused(ApiKeys(["old", "new", "né"]), authorization)


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        b"",
        b"Bearer",
        b"Bearer ",
        b"old",
        b"Basic old",
        b"Bearer old,new",
        b"Bearer ol",
        b"Bearer olde",
    ],
)
def test_other_authorization_is_refused(authorization: bytes | None) -> None:
    assert is_refused(ApiKeys(["old", "new"]), authorization)


def test_missing_and_wrong_keys_have_different_messages() -> None:
    with pytest.raises(Unauthorized, match=r"^No API key provided"):
        ApiKeys(["old"]).check({})
    with pytest.raises(Unauthorized, match=r"^Incorrect API key provided"):  # OpenAI's words
        ApiKeys(["old"]).check({b"authorization": b"Bearer new"})


def test_azures_header_is_accepted_where_there_is_no_authorization() -> None:
    keys = ApiKeys(["old", "new"])
    keys.check({b"api-key": b" new"})
    for headers in (
        {b"api-key": b"none"},
        {b"api-key": b""},
        {b"api-key": b"Bearer new"},
        {b"api-key": b"new", b"authorization": b"Bearer none"},
    ):
        with pytest.raises(Unauthorized, match=r"^Incorrect"):
            keys.check(headers)


NAME = socket.gethostname()
BODY = {"inputs": "a"}


def rejection_code(checks: BrowserChecks, host: str, **headers: str) -> str | None:
    """The error code of a refused request, or None."""
    raw_headers = {
        name.replace("_", "-").encode(): value.encode() for name, value in headers.items()
    }
    try:
        checks.check({b"host": host.encode(), **raw_headers})
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
        *(("host.docker.internal:8080", None), ("Host.Containers.Internal", None)),
        *(("mac.local", None), ("app.localhost:80", None), ("gpu.internal.", None)),
        *(("evil.internal.example", "host_not_allowed"), ("internal", "host_not_allowed")),
        *(("evillocal", "host_not_allowed"), (".local", "host_not_allowed")),
    ],
)
def test_a_server_on_loopback_without_a_key_accepts_only_local_hosts(
    address: str, host: str, code: str | None
) -> None:
    checks = BrowserChecks.of(address, "", "", has_key=False)
    assert rejection_code(checks, host) == code
    assert rejection_code(BrowserChecks.of(address, "", "", has_key=True), host) is None
    assert rejection_code(BrowserChecks.of(address, "*", "", has_key=False), host) is None


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.0.7", "server.example"])
def test_a_server_on_another_address_accepts_any_host(address: str) -> None:
    checks = BrowserChecks.of(address, "", "", has_key=False)
    for host in ("embedwell:8080", "embedwell.default.svc.cluster.local", "api.example"):
        assert rejection_code(checks, host) is None


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_only_listed_and_local_hosts_are_accepted(address: str) -> None:
    checks = BrowserChecks.of(address, "api.example,other.example", "", has_key=False)
    assert (
        rejection_code(checks, "API.example:443") is None
        and rejection_code(checks, "127.0.0.1") is None
    )
    for other in ("evil.example", "host.docker.internal"):
        assert rejection_code(checks, other) == "host_not_allowed"


def test_a_request_without_a_host_is_accepted() -> None:
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
        ("localhost:8080", {"origin": "http://localhost:9999"}, True),
        ("localhost:8080", {"origin": "VSCode-WebView://1a2b"}, True),
        ("localhost:8080", {"origin": "http://evil.internal"}, False),
        ("localhost:8080", {"origin": "null"}, False),
        ("", {"origin": "https://"}, False),
    ],
)
def test_only_same_origin_local_and_listed_origins_are_accepted(
    host: str, headers: dict[str, str], allowed: bool
) -> None:
    checks = BrowserChecks.of("0.0.0.0", "", "https://page.example", has_key=False)
    assert rejection_code(checks, host, **headers) == (None if allowed else "origin_not_allowed")
    assert rejection_code(BrowserChecks("*", "*"), host, **headers) is None
    assert (
        rejection_code(BrowserChecks.of("0.0.0.0", "", "", has_key=True), host, **headers) is None
    )


def test_requests_from_pages_of_other_origins_are_refused(server: Server) -> None:
    headers = {"origin": "https://evil.example", "content-type": "text/plain"}
    response = server.client.post("/v1/embeddings", json={"input": "a"}, headers=headers)
    assert response.status_code == 403 and response.json()["error"]["code"] == "origin_not_allowed"
    response = server.client.get("/info", headers={"host": "evil.example"})
    assert response.status_code == 403 and "EMBEDWELL_ALLOWED_HOSTS" in response.text
    same_origin = {"origin": server.url, "content-type": "text/plain"}
    assert server.client.post("/embed", json=BODY, headers=same_origin).status_code == 200


def test_containers_and_desktop_programs_are_served(server: Server) -> None:
    expected = server.post("/embed", BODY).json()
    for host in ("host.docker.internal:8080", "host.containers.internal", "mac.local"):
        response = server.client.post("/embed", json=BODY, headers={"host": host})
        assert (response.status_code, response.json()) == (200, expected)
    for origin in ("app://obsidian.md", "tauri://localhost", "http://localhost:3000", "file://"):
        response = server.client.post("/embed", json=BODY, headers={"origin": origin})
        assert (response.status_code, response.json()) == (200, expected)
    page = {"host": "host.docker.internal", "origin": "https://evil.example"}
    assert server.client.post("/embed", json=BODY, headers=page).status_code == 403


@pytest.fixture(scope="module")
def server_with_key(minilm_folder: Path) -> Iterator[HttpServer]:
    with local_server(minilm_folder, api_key="sesame") as running:
        yield running


def test_a_server_with_a_key_accepts_any_host_and_origin(server_with_key: HttpServer) -> None:
    headers = {"host": "evil.example", "origin": "https://evil.example"}
    assert server_with_key.client.post("/embed", json=BODY, headers=headers).status_code == 401
    headers["authorization"] = "Bearer sesame"
    assert server_with_key.client.post("/embed", json=BODY, headers=headers).status_code == 200
    assert (
        httpx.get(
            f"{server_with_key.url}/docs", headers={"origin": server_with_key.url}, timeout=120
        ).status_code
        == 200
    )


@pytest.mark.parametrize(
    "origin",
    [
        *("app://obsidian.md", "app://.", "tauri://localhost", "file://"),
        *("vscode-webview://1a2b", "vscode-file://vscode-app", "https://tauri.localhost"),
        *("chrome-extension://abcdef", "moz-extension://1-2", "safari-web-extension://A"),
        *("http://localhost", "https://localhost:3000", "http://127.0.0.1:5173"),
        *("http://[::1]:8080", "http://0.0.0.0:80"),
    ],
)
def test_programs_extensions_and_pages_of_this_machine_are_local(origin: str) -> None:
    assert is_local_origin(origin)


@pytest.mark.parametrize(
    "origin",
    [
        *("null", "", "https://evil.example", "http://localhost.evil.example"),
        *("http://evil.example:80", "http://localhost:80.evil.example", "http://localhost:"),
        *("http://127.0.0.1.evil.example", "http://evil.localhost", "http://evil.local"),
        *("http://localhost@evil.example", "evil-app://x", "https://app://x", "app:x"),
        *("http://127.0.0.2", "http://192.168.0.7", "ftp://localhost", "http://localhost/"),
        *("http://app", "https://evil.example#app://", "http://localhost\n"),
    ],
)
def test_web_pages_are_not_local(origin: str) -> None:
    assert not is_local_origin(origin)


@pytest.mark.parametrize(
    ("scheme", "port", "own"), [("http", 80, True), ("https", 443, True), ("http", 443, False)]
)
def test_an_origin_may_state_the_standard_port(scheme: str, port: int, own: bool) -> None:
    checks = BrowserChecks("*", "")
    headers = {b"host": b"embeddings.example", b"origin": b""}
    headers[b"origin"] = f"{scheme}://embeddings.example:{port}".encode()
    if own:
        checks.check(headers)
    else:
        with pytest.raises(Forbidden, match="is not allowed"):
            checks.check(headers)
