"""Servers behind each gateway that stop, start again and are killed, under load."""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.conftest import COMPILED, Folder
from tests.gateways import GATEWAYS, Proxy, free_port
from tests.service.server import Server

pytestmark = pytest.mark.full

CLIENTS, PAUSE = 3, 0.05  # seconds


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
            while not self._stop.wait(PAUSE):
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


def gets_requests(server: Server) -> bool:
    """Whether the gateway has sent a request to a server."""
    return 'path="/embed"' in server.client.get("/metrics").text


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
            server = start(index)
            server.wait_until(lambda: gets_requests(server))

        servers = [start(0), start(1)]
        hosts = [f"127.0.0.1:{port}" for port in ports]
        gateway = stack.enter_context(GATEWAYS[name](folder, *hosts))
        yield gateway, servers, restart


@pytest.mark.parametrize("name", GATEWAYS)
def test_no_request_is_lost_in_a_rolling_restart(
    name: str, tiny_bert: Folder, tmp_path: Path
) -> None:
    with (
        two_servers(name, tiny_bert(**COMPILED), tmp_path) as (gateway, servers, restart),
        Load(gateway.url) as load,
    ):
        for index, server in enumerate(servers):
            load.wait_for(50)
            assert server.stop() == 0
            load.wait_for(50)
            restart(index)
        load.wait_for(50)
    assert set(load.outcomes) == {"200"}, load.outcomes


@pytest.mark.parametrize("name", GATEWAYS)
def test_no_request_is_lost_with_a_killed_server_except_by_caddy(
    name: str, tiny_bert: Folder, tmp_path: Path
) -> None:
    with (
        two_servers(name, tiny_bert(**COMPILED), tmp_path) as (gateway, [first, _], restart),
        Load(gateway.url) as load,
    ):
        load.wait_for(50)
        kill(first)
        restart(0)
        lost = Counter(load.outcomes - Counter({"200": load.outcomes["200"]}))
        load.wait_for(150)
    assert set(lost) <= ({"502", "503"} if name == "caddy" else set()), load.outcomes
    assert load.outcomes.total() == load.outcomes["200"] + lost.total()  # none later
