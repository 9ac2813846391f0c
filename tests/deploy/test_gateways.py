"""The configurations of nginx, HAProxy and Caddy, each with the real program."""

import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.conftest import Folder
from tests.gateways import Caddy, Haproxy, Upstream
from tests.nginx import Gateway, Proxy, free_port
from tests.service.local_server import local_server
from tests.service.server import HttpServer, Server, error_of

pytestmark = pytest.mark.full

GATEWAYS: dict[str, Callable[..., Proxy]] = {"nginx": Gateway, "haproxy": Haproxy, "caddy": Caddy}
HEALTH_CHECKING = ["haproxy", "caddy"]
CLIENTS = 3
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
    without_key = httpx.post(f"{gateway.url}/embed", json=body)
    assert without_key.status_code == 401 and error_of(without_key)["code"] == "invalid_api_key"


def test_a_too_large_body_is_refused_in_json(gateway: Proxy) -> None:
    response = httpx.post(f"{gateway.url}/embed", content=b"x" * (8 * 2**20 + 1), headers=KEY)
    assert response.status_code == 413 and error_of(response)["code"] == "body_too_large"
    assert httpx.post(f"{gateway.url}/embed", json={"inputs": "a"}, headers=KEY).status_code == 200


def test_a_body_as_large_as_the_server_takes_passes(gateway: Proxy) -> None:
    body = b'{"inputs": "a"}'.ljust(8 * 2**20)
    response = httpx.post(f"{gateway.url}/embed", content=body, headers=KEY, timeout=60)
    assert response.status_code == 200


def test_metrics_are_not_reachable(gateway: Proxy, protected: HttpServer) -> None:
    assert protected.client.get("/metrics").status_code == 200
    response = httpx.get(f"{gateway.url}/metrics")
    assert response.status_code == 404 and error_of(response)["code"] == "not_found"


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


class Load:
    """Clients that send short texts through a gateway until the end of a `with` block."""

    def __init__(self, url: str) -> None:
        self._url, self._stop = url, threading.Event()
        self.outcomes: Counter[str] = Counter()
        self._threads = [threading.Thread(target=self._send) for _ in range(CLIENTS)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, more: int) -> None:
        """Wait until so many more requests have ended."""
        deadline, total = time.monotonic() + 120, self.outcomes.total() + more
        while self.outcomes.total() < total:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def _send(self) -> None:
        with httpx.Client(base_url=self._url, timeout=60) as client:
            while not self._stop.wait(0.005):
                try:
                    response = client.post("/embed", json={"inputs": "a short text"})
                    self.outcomes[str(response.status_code)] += 1
                except httpx.HTTPError as error:
                    self.outcomes[type(error).__name__] += 1


def kill(server: Server) -> None:
    """End all processes of a server at once."""
    process = psutil.Process(server.process.pid)
    for each in [process, *process.children(recursive=True)]:
        each.kill()
    server.process.wait(60)


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
        response = httpx.post(f"{gateway.url}/embed", json={"inputs": "a"}, headers=KEY)
        assert response.status_code == 200


@contextlib.contextmanager
def two_servers(
    name: str, model: Path, folder: Path
) -> Iterator[tuple[Proxy, list[Server], Callable[[int], None]]]:
    """Run a gateway and two servers; yields a function that starts one of them again, too."""
    ports = [free_port(), free_port()]
    with contextlib.ExitStack() as stack:

        def start(index: int) -> Server:
            log = folder / f"log-{index}"
            server = Server(log, ports[index], model=model, threads=1, drain_delay=3)
            return stack.enter_context(server)

        def restart(index: int) -> None:
            start(index).wait_ready()
            time.sleep(4)  # until a health check has seen it

        servers = [start(0), start(1)]
        hosts = [f"127.0.0.1:{port}" for port in ports]
        gateway = stack.enter_context(GATEWAYS[name](folder, *hosts))
        yield gateway, servers, restart


@pytest.mark.parametrize("name", GATEWAYS)
@pytest.mark.full
def test_no_request_is_lost_in_a_rolling_restart(
    name: str, tiny_bert: Folder, tmp_path: Path
) -> None:
    with (
        two_servers(name, tiny_bert(), tmp_path) as (gateway, servers, restart),
        Load(gateway.url) as load,
    ):
        for index, server in enumerate(servers):
            load.wait_for(100)
            assert server.stop() == 0
            load.wait_for(100)
            restart(index)
        load.wait_for(100)
    assert set(load.outcomes) == {"200"}, load.outcomes


@pytest.mark.parametrize("name", GATEWAYS)
@pytest.mark.full
def test_no_request_is_lost_with_a_killed_server_except_by_caddy(
    name: str, tiny_bert: Folder, tmp_path: Path
) -> None:
    with (
        two_servers(name, tiny_bert(), tmp_path) as (gateway, [first, _], restart),
        Load(gateway.url) as load,
    ):
        load.wait_for(100)
        kill(first)
        restart(0)
        lost = Counter(load.outcomes - Counter({"200": load.outcomes["200"]}))
        load.wait_for(300)
    assert set(lost) <= ({"502", "503"} if name == "caddy" else set()), load.outcomes
    assert load.outcomes.total() == load.outcomes["200"] + lost.total()  # none later
