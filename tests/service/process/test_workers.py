"""Several HTTP processes on one engine: real processes, real signals."""

import concurrent.futures
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.service.responses import error
from tests.service.server import Server

WORKERS = 2


@pytest.fixture
def own(minilm_folder: object, tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "log", workers=WORKERS) as running:
        wait(lambda: len(answering(running)) == WORKERS, running)
        yield running


def wait(true: object, server: Server, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():  # type: ignore[operator]
        assert time.monotonic() < deadline, server.log
        time.sleep(0.05)


def workers(server: Server) -> list[psutil.Process]:
    return server.children("service.server.http_worker")


def answering(server: Server) -> set[int]:
    """The processes that connections come to, of many on which all are ready."""
    clients = [httpx.Client(base_url=server.url) for _ in range(40)]
    try:
        if any(client.get("/ready").status_code != 200 for client in clients):
            return set()
        port = int(server.url.rsplit(":", 1)[1])
        found = psutil.net_connections("tcp")
        near = [one for one in found if one.status == "ESTABLISHED" and one.laddr[1:] == (port,)]
        return {one.pid for one in near if one.pid}
    finally:
        for client in clients:
            client.close()


def fresh(server: Server, path: str, body: object) -> httpx.Response:
    """An answer on a new connection, which may come to any process."""
    return httpx.post(server.url + path, json=body, timeout=60)


def metric(server: Server, name: str) -> float:
    text = httpx.get(f"{server.url}/metrics").text
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    assert found
    return float(found.group(1))


@pytest.mark.full
def test_all_processes_answer_alike_and_any_tells_of_all(own: Server) -> None:
    assert len(workers(own)) == WORKERS
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: fresh(own, "/embed", {"inputs": "alike"}), range(60)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    name = 'embedding_requests_total{path="/embed",status="200"}'
    assert [metric(own, name) for _ in range(10)] == [60] * 10


@pytest.mark.full
def test_a_process_that_dies_is_started_again_and_what_it_counted_stays(own: Server) -> None:
    for _ in range(30):
        fresh(own, "/embed", {"inputs": "a"})
    before, _ = workers(own)
    before.kill()
    wait(lambda: len(answering(own) - {before.pid}) == WORKERS, own)
    assert fresh(own, "/embed", {"inputs": "a"}).status_code == 200
    assert metric(own, "embedding_texts_total") == 31
    assert metric(own, "embedding_engine_restarts") == 0


@pytest.mark.full
def test_all_processes_tell_the_same_start_also_one_that_is_started_again(own: Server) -> None:
    worker, _ = workers(own)
    worker.kill()
    wait(lambda: len(answering(own) - {worker.pid}) == WORKERS, own)
    found = [httpx.get(f"{own.url}/v1/models").json()["data"][0] for _ in range(30)]
    assert len({each["created"] for each in found}) == 1


@pytest.mark.full
def test_what_a_process_that_died_had_queued_is_forgotten_at_once(own: Server) -> None:
    worker, _ = workers(own)
    os.kill(own.engine, signal.SIGSTOP)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for _ in range(16):
            pool.submit(fresh, own, "/embed", {"inputs": "a " * 100})
        wait(lambda: metric(own, "embedding_queued_tokens") == 16 * 102, own)
        worker.kill()
        wait(lambda: "an HTTP process was ended by SIGKILL" in own.log, own)
        # While the engine stands still, nothing else could have made it fewer.
        assert metric(own, "embedding_queued_tokens") < 16 * 102
        os.kill(own.engine, signal.SIGCONT)


@pytest.mark.full
def test_a_server_that_has_failed_does_not_drain(minilm_folder: object, tmp_path: Path) -> None:
    server = Server(tmp_path / "log", workers=WORKERS, drain_delay=10_000, dtype="float16")
    with pytest.raises(AssertionError, match="not supported"), server:
        pass
    assert server.process.poll() == 1


def test_an_engine_that_dies_is_found_again_by_all(own: Server) -> None:
    os.kill(own.engine, signal.SIGKILL)
    wait(lambda: len(answering(own)) == WORKERS, own)
    answers = [fresh(own, "/embed", {"inputs": "back"}) for _ in range(30)]
    assert {answer.status_code for answer in answers} == {200}
    assert [metric(own, "embedding_engine_restarts") for _ in range(10)] == [1] * 10


@pytest.mark.full
def test_a_stop_lets_all_processes_finish_what_they_do(own: Server) -> None:
    processes = psutil.Process(own.process.pid).children(recursive=True)
    engine = own.engine
    os.kill(engine, signal.SIGSTOP)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(fresh, own, "/embed", {"inputs": "a " * 8}) for _ in range(8)]
        wait(lambda: metric(own, "embedding_queued_tokens") == 8 * 10, own)
        own.process.send_signal(signal.SIGTERM)
        wait(lambda: own.log.count("Shutting down") == WORKERS, own)
        os.kill(engine, signal.SIGCONT)
        assert {answer.result().status_code for answer in answers} == {200}
    assert own.process.wait(60) == 0
    assert not any(process.is_running() for process in processes)


@pytest.mark.full
def test_processes_that_finish_what_they_do_take_no_time_of_their_own(
    minilm_folder: object, tmp_path: Path
) -> None:
    with Server(tmp_path / "log", workers=WORKERS, drain_delay=3) as server:
        wait(lambda: len(answering(server)) == WORKERS, server)
        worker, _ = workers(server)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        before = sum(worker.cpu_times()[:2])
        time.sleep(1.5)
        assert sum(worker.cpu_times()[:2]) - before < 0.5


@pytest.mark.full
def test_what_does_not_finish_before_the_end_is_told_so_by_every_process(
    minilm_folder: object, tmp_path: Path
) -> None:
    with Server(tmp_path / "log", workers=WORKERS, shutdown_timeout=1) as server:
        wait(lambda: len(answering(server)) == WORKERS, server)
        os.kill(server.engine, signal.SIGSTOP)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            body = {"inputs": "a " * 8}
            answers = [pool.submit(fresh, server, "/embed", body) for _ in range(16)]
            wait(lambda: metric(server, "embedding_queued_tokens") == 16 * 10, server)
            assert server.stop() == 0
            for answer in answers:
                assert error(answer.result(), 503)["code"] == "shutting_down"


@pytest.mark.full
def test_nothing_stays_when_the_server_is_killed(own: Server) -> None:
    processes = psutil.Process(own.process.pid).children(recursive=True)
    assert len(processes) > WORKERS
    own.process.kill()
    _, alive = psutil.wait_procs(processes, 60)
    assert not alive


@pytest.mark.full
def test_a_connection_that_a_process_which_dies_has_not_accepted_is_answered_by_the_next(
    minilm_folder: object, tmp_path: Path
) -> None:
    with Server(tmp_path / "log") as server:
        [worker] = workers(server)
        worker.suspend()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = [pool.submit(fresh, server, "/embed", {"inputs": "a"}) for _ in range(4)]
            port = int(server.url.rsplit(":", 1)[1])
            wait(lambda: waiting(port) >= 4, server)
            worker.kill()
            # An engine that it has just found may still be unknown to the new process.
            assert {answer.result().status_code for answer in answers} <= {200, 503}


def waiting(port: int) -> int:
    """How many connections to a port are open at the client's end."""
    found = psutil.net_connections("tcp")
    return sum(one.status == "ESTABLISHED" and one.raddr[1:] == (port,) for one in found)


@pytest.mark.full
def test_every_process_has_the_key_and_no_command_line_shows_it(
    minilm_folder: object, tmp_path: Path
) -> None:
    with Server(tmp_path / "log", workers=2, api_key="a secret") as server:
        key = {"authorization": "Bearer a secret"}
        for _ in range(20):
            body, url = {"inputs": "a"}, f"{server.url}/embed"
            assert httpx.post(url, json=body, headers=key).status_code in (200, 503)
            assert error(httpx.post(url, json=body), 401)
        for process in psutil.Process(server.process.pid).children(recursive=True):
            assert "secret" not in " ".join(process.cmdline())


@pytest.mark.parametrize("workers", [1, 2])
def test_a_port_that_is_taken_is_refused_before_anything_is_loaded(
    minilm_folder: object, tmp_path: Path, workers: int
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(AssertionError, match=f"cannot listen on 127.0.0.1 port {port}"),
            Server(tmp_path / "log", taken.getsockname()[1], workers=workers),
        ):
            pass
    assert len((tmp_path / "log").read_text().splitlines()) == 1
