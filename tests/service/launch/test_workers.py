"""A server of several HTTP processes: real processes, real signals."""

import concurrent.futures
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from embedwell.launch.bootstrap import default_workers
from embedwell.launch.supervised import HTTP_PROCESS
from embedwell_models.encoder.cpus import available_cpus
from tests.service.responses import error
from tests.service.server import Server

WORKERS = 2


@pytest.fixture(scope="module")
def shared(minilm_folder: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("workers") / "log", workers=WORKERS) as server:
        yield server


@pytest.fixture
def server(shared: Server) -> Server:
    """A server of the tests that do not end it; all of its processes accept connections."""
    return wait_answering(shared)


@pytest.fixture
def own_server(minilm_folder: object, tmp_path: Path) -> Iterator[Server]:
    """A server that the test ends."""
    with Server(tmp_path / "log", workers=WORKERS) as server:
        yield wait_answering(server)


def wait_answering(server: Server) -> Server:
    server.wait_until(lambda: len(processes_answering(server)) == WORKERS)
    return server


def test_the_processors_decide_how_many_processes_there_are_by_default(
    minilm_folder: object, tmp_path: Path
) -> None:
    expected = default_workers(available_cpus(), gpu=False)
    with Server(tmp_path / "log", workers=0, device="cpu") as server:
        server.wait_until(lambda: len(workers(server)) == expected)
        assert server.client.get("/info").json()["tokenization_workers"] == expected


def established() -> list[Any]:
    """The established TCP connections of this machine."""
    return [one for one in psutil.net_connections("tcp") if one.status == psutil.CONN_ESTABLISHED]


def workers(server: Server) -> list[psutil.Process]:
    return server.children(HTTP_PROCESS)


def processes_answering(server: Server) -> set[int]:
    """The ids of the processes that accept connections, if all of them are ready."""
    clients = [server.new_client() for _ in range(40)]
    try:
        if any(client.get("/ready").status_code != 200 for client in clients):
            return set()
        port = int(server.url.rsplit(":", 1)[1])
        accepted = [connection for connection in established() if connection.laddr[1:] == (port,)]
        return {connection.pid for connection in accepted if connection.pid}
    finally:
        for client in clients:
            client.close()


def embed(server: Server, text: str) -> httpx.Response:
    """Embed a text over a new connection, which any of the processes may accept."""
    with server.new_client() as client:
        return client.post("/embed", json={"inputs": text})


def metric(server: Server, name: str) -> float:
    """The value of a metric, as any of the processes tells it; 0 until it is counted."""
    with server.new_client() as client:
        text = client.get("/metrics").text
    match = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(match.group(1)) if match else 0.0


@pytest.mark.full
def test_all_processes_give_the_same_vectors_and_metrics(server: Server) -> None:
    assert len(workers(server)) == WORKERS
    name = 'embedwell_requests_total{path="/embed",status="200"}'
    before = metric(server, name)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(lambda _: embed(server, "alike"), range(60)))
    assert {response.status_code for response in responses} == {200}
    assert len({response.content for response in responses}) == 1
    assert [metric(server, name) for _ in range(10)] == [before + 60] * 10


@pytest.mark.full
def test_the_metrics_of_a_killed_process_are_kept(server: Server) -> None:
    names = ("embedwell_texts_total", "embedwell_engine_restarts")
    texts, restarts = (metric(server, name) for name in names)
    for _ in range(30):
        embed(server, "a")
    before, _ = workers(server)
    before.kill()
    server.wait_until(lambda: len(processes_answering(server) - {before.pid}) == WORKERS)
    assert embed(server, "a").status_code == 200
    assert [metric(server, name) for name in names] == [texts + 31, restarts]


@pytest.mark.full
def test_all_processes_report_the_same_start_time_even_after_a_restart(server: Server) -> None:
    worker, _ = workers(server)
    worker.kill()
    server.wait_until(lambda: len(processes_answering(server) - {worker.pid}) == WORKERS)
    created = set[int]()
    for _ in range(30):
        with server.new_client() as client:
            model, *_ = client.get("/v1/models").json()["data"]
            created.add(model["created"])
    assert len(created) == 1


@pytest.mark.full
def test_the_queue_of_a_killed_process_is_dropped_at_once(server: Server) -> None:
    worker, _ = workers(server)
    os.kill(server.engine, signal.SIGSTOP)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for _ in range(16):
            pool.submit(embed, server, "a " * 100)
        server.wait_until(lambda: metric(server, "embedwell_queued_tokens") == 16 * 102)
        killed = "an HTTP process was killed by signal 9"
        earlier = server.log.count(killed)
        worker.kill()
        server.wait_until(lambda: server.log.count(killed) > earlier)
        # While the engine is stopped, nothing else can shorten the queue.
        assert metric(server, "embedwell_queued_tokens") < 16 * 102
        os.kill(server.engine, signal.SIGCONT)


@pytest.mark.full
def test_a_server_that_fails_to_start_does_not_drain(minilm_folder: object, tmp_path: Path) -> None:
    server = Server(tmp_path / "log", workers=WORKERS, drain_delay=10_000, dtype="float16")
    with pytest.raises(AssertionError, match="not supported"), server:
        pass
    assert server.process.poll() == 1


def test_all_processes_reconnect_to_a_restarted_engine(server: Server) -> None:
    restarts = metric(server, "embedwell_engine_restarts")
    os.kill(server.engine, signal.SIGKILL)
    server.wait_until(lambda: len(processes_answering(server)) == WORKERS)
    responses = [embed(server, "back") for _ in range(30)]
    assert {response.status_code for response in responses} == {200}
    assert [metric(server, "embedwell_engine_restarts") for _ in range(10)] == [restarts + 1] * 10


def refuses_connections(server: Server) -> bool:
    """Whether no process listens any more."""
    url = httpx.URL(server.url)
    try:
        socket.create_connection((url.host, url.port)).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.full
def test_shutdown_lets_all_processes_finish_their_requests(own_server: Server) -> None:
    processes = psutil.Process(own_server.process.pid).children(recursive=True)
    engine = own_server.engine
    os.kill(engine, signal.SIGSTOP)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        responses = [pool.submit(embed, own_server, "a " * 8) for _ in range(8)]
        own_server.wait_until(lambda: metric(own_server, "embedwell_queued_tokens") == 8 * 10)
        own_server.process.send_signal(signal.SIGTERM)
        own_server.wait_until(lambda: refuses_connections(own_server))
        os.kill(engine, signal.SIGCONT)
        assert {response.result().status_code for response in responses} == {200}
    assert own_server.process.wait(60) == 0
    assert not any(process.is_running() for process in processes)


@pytest.mark.full
def test_draining_processes_are_idle(minilm_folder: object, tmp_path: Path) -> None:
    with Server(tmp_path / "log", workers=WORKERS, drain_delay=10_000) as server:
        server.wait_until(lambda: len(processes_answering(server)) == WORKERS)
        worker, _ = workers(server)
        server.process.send_signal(signal.SIGINT)
        server.wait_until(lambda: server.client.get("/ready").status_code != 200)
        before = sum(worker.cpu_times()[:2])
        time.sleep(1.5)
        assert sum(worker.cpu_times()[:2]) - before < 0.5
        server.process.send_signal(signal.SIGINT)  # the second one ends the wait
        assert server.process.wait(60) == 0


@pytest.mark.full
def test_every_process_refuses_requests_unfinished_at_the_shutdown_timeout(
    minilm_folder: object, tmp_path: Path
) -> None:
    with Server(tmp_path / "log", workers=WORKERS, shutdown_timeout=1) as server:
        server.wait_until(lambda: len(processes_answering(server)) == WORKERS)
        os.kill(server.engine, signal.SIGSTOP)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            responses = [pool.submit(embed, server, "a " * 8) for _ in range(16)]
            server.wait_until(lambda: metric(server, "embedwell_queued_tokens") == 16 * 10)
            assert server.stop() == 0
            for response in responses:
                assert error(response.result(), 503)["code"] == "shutting_down"


@pytest.mark.full
def test_no_process_outlives_a_killed_server(own_server: Server) -> None:
    processes = psutil.Process(own_server.process.pid).children(recursive=True)
    assert len(processes) > WORKERS
    own_server.process.kill()
    _, alive = psutil.wait_procs(processes, 60)
    assert not alive


@pytest.mark.full
def test_connections_not_accepted_by_a_killed_process_are_answered_by_the_next(
    minilm_folder: object, tmp_path: Path
) -> None:
    with Server(tmp_path / "log") as server:
        [worker] = workers(server)
        worker.suspend()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            responses = [pool.submit(embed, server, "a") for _ in range(4)]
            port = int(server.url.rsplit(":", 1)[1])
            server.wait_until(lambda: connections_to(port) >= 4)
            worker.kill()
            # 503 if the new process is not yet connected to the engine.
            assert {response.result().status_code for response in responses} <= {200, 503}


def connections_to(port: int) -> int:
    """The number of connections to a port that are open at the client's end."""
    return sum(connection.raddr[1:] == (port,) for connection in established())


@pytest.mark.full
def test_every_process_checks_the_key_and_no_command_line_shows_it(
    minilm_folder: object, tmp_path: Path
) -> None:
    with Server(tmp_path / "log", workers=2, api_key="a secret") as server:
        key = {"authorization": "Bearer a secret"}
        for _ in range(20):
            body, url = {"inputs": "a"}, f"{server.url}/embed"
            assert httpx.post(url, json=body, headers=key, timeout=120).status_code in (200, 503)
            assert error(httpx.post(url, json=body, timeout=120), 401)
        for process in psutil.Process(server.process.pid).children(recursive=True):
            assert "secret" not in " ".join(process.cmdline())


@pytest.mark.parametrize("workers", [1, 2])
def test_a_port_in_use_is_refused_before_anything_is_loaded(
    minilm_folder: object, tmp_path: Path, workers: int
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with (
            pytest.raises(AssertionError, match=f"cannot listen on 127.0.0.1 port {port}"),
            Server(tmp_path / "log", listener.getsockname()[1], workers=workers),
        ):
            pass
    assert len((tmp_path / "log").read_text().splitlines()) == 1
