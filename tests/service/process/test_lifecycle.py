"""Starting, dying, restarting and stopping: real processes, real signals."""

import concurrent.futures
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from models.precision.trials import MIN_COSINE
from tests.conftest import precisions
from tests.service.responses import error
from tests.service.server import Server


@pytest.fixture
def own(minilm_folder: object, tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "log") as running:
        yield running


@pytest.mark.full
def test_the_processes_without_the_model_are_small(own: Server) -> None:
    own.post("/embed", {"inputs": ["text " * 200] * 50})
    [worker] = own.children("service.server.http_worker")
    assert worker.memory_info().rss < 150e6
    assert psutil.Process(own.process.pid).memory_info().rss < 60e6


@pytest.mark.full
def test_a_process_for_http_that_dies_is_started_again_and_the_rest_goes_on(own: Server) -> None:
    engine, [worker] = own.engine, own.children("service.server.http_worker")
    own.client.close()
    worker.kill()
    own.client = httpx.Client(base_url=own.url, timeout=60)
    own.wait_ready()
    assert own.post("/embed", {"inputs": "a"}).status_code == 200
    assert own.engine == engine
    assert own.client.get("/info").json()["engine_restarts"] == 0
    assert own.log.count("listens on") == 1


@pytest.mark.full
def test_auto_says_what_it_tried_and_chose(minilm_folder: object, tmp_path: Path) -> None:
    with Server(tmp_path / "log", dtype="auto") as server:
        engine = server.client.get("/info").json()["engine"]
        trials = {trial["dtype"]: trial for trial in engine["trials"]}
        assert list(trials) == precisions()
        assert trials["float32"]["cosine"] == trials["float32"]["speedup"] == 1
        assert trials[engine["dtype"]]["cosine"] >= MIN_COSINE
        for name in set(trials) - {"float32"}:
            assert f"{name}: cosine to float32 at least {trials[name]['cosine']:.5f}" in server.log


@pytest.mark.full
def test_the_port_answers_while_there_is_no_engine(own: Server) -> None:
    engine, [launcher] = own.engine, own.children("service.engine")
    launcher.suspend()
    os.kill(engine, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while own.client.get("/ready").status_code == 200:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert own.client.get("/live").status_code == 200
    found = own.client.get("/ready")
    assert error(found, 503)["code"] == "engine_unavailable"
    assert int(found.headers["retry-after"]) >= 1
    launcher.resume()
    assert own.post("/embed", {"inputs": "a"}).status_code == 200, "it waits for the next engine"
    assert own.client.get("/info").json()["engine_restarts"] == 1


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.full
def test_an_engine_that_is_started_again_tries_nothing_again(
    minilm_folder: object, tmp_path: Path, whole: bool
) -> None:
    with Server(tmp_path / "log", dtype="auto") as server:
        before = server.client.get("/info").json()["engine"]
        trials, [launcher] = (
            server.log.count("cosine to float32"),
            server.children("service.engine"),
        )
        assert launcher.num_threads() == 1  # others would be missing in what it forks
        os.kill(launcher.pid if whole else server.engine, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while server.log.count("listens on") < 2:
            assert time.monotonic() < deadline, server.log
            time.sleep(0.01)
        assert server.client.get("/info").json()["engine"] == before
        assert server.log.count("cosine to float32") == trials
        assert (server.children("service.engine") == [launcher]) == (not whole)
        assert server.client.get("/info").json()["engine_restarts"] == 1


@pytest.mark.full
def test_as_many_connections_are_taken_as_the_system_allows(
    minilm_folder: object, tmp_path: Path
) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        with Server(tmp_path / "log") as server:
            [worker] = server.children("service.server.http_worker")
            found = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert found == (before[1], before[1])


def test_requests_that_wait_when_the_engine_dies_are_answered(own: Server) -> None:
    stop = threading.Event()
    statuses: list[int] = []

    def load() -> None:
        with httpx.Client(base_url=own.url, timeout=90) as client:
            while not stop.is_set():
                answer = client.post("/embed", json={"inputs": ["some words to embed"] * 8})
                statuses.append(answer.status_code)

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        running = [pool.submit(load) for _ in range(16)]
        try:
            time.sleep(1)
            os.kill(own.engine, signal.SIGKILL)
            seen, deadline = len(statuses), time.monotonic() + 60
            while len(statuses) < seen + 50 and time.monotonic() < deadline:
                time.sleep(0.05)
        finally:
            stop.set()  # or the pool would wait for ever
        for worker in running:
            worker.result(timeout=90)  # none hangs, none lost its connection
    assert set(statuses) == {200} and len(statuses) >= seen + 50
    assert own.client.get("/info").json()["engine_restarts"] == 1


@pytest.mark.full
def test_an_engine_that_hangs_is_given_nothing_more_and_is_replaced(own: Server) -> None:
    os.kill(own.engine, signal.SIGSTOP)
    deadline = time.monotonic() + 120
    while own.client.get("/ready").status_code == 200:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    while "the engine hangs and is killed" not in own.log:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    own.wait_ready(120)
    assert own.post("/embed", {"inputs": "a"}).status_code == 200
    assert own.client.get("/info").json()["engine_restarts"] == 1


@pytest.mark.full
def test_a_process_for_http_that_hangs_is_replaced(own: Server) -> None:
    [worker] = own.children("service.server.http_worker")
    own.client.close()
    worker.suspend()
    deadline = time.monotonic() + 300
    while "an HTTP process has not moved for 30 s and is killed" not in own.log:
        assert time.monotonic() < deadline, own.log
        time.sleep(0.1)
    own.client = httpx.Client(base_url=own.url, timeout=60)
    own.wait_ready()
    assert own.post("/embed", {"inputs": "a"}).status_code == 200


@pytest.mark.full
def test_a_model_that_never_is_loaded_ends_the_server(tmp_path: Path) -> None:
    server = Server(tmp_path / "log", load_timeout=0.5)
    with pytest.raises(AssertionError), server:
        pass
    assert server.process.poll() == 1
    assert "the engine is not ready after 0.5 s and is killed" in server.log
    assert "it was started 5 times and never was ready" in server.log


def test_too_few_descriptors_end_the_server(minilm_folder: object, tmp_path: Path) -> None:
    # The limit of its own process: one that is lowered here could not be raised again.
    command = f"ulimit -n 14; exec {sys.executable} -m service serve --port 0"
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "cannot be started: [Errno 24] Too many open files; it was started 5" in done.stderr


@pytest.mark.full
def test_the_engine_leaves_when_the_server_is_killed(own: Server) -> None:
    engine = psutil.Process(own.engine)
    own.process.kill()
    _, alive = psutil.wait_procs([engine], 60)
    assert not alive


@pytest.mark.full
def test_a_signal_to_the_whole_group_stops_the_server_and_not_its_engine(own: Server) -> None:
    os.kill(own.engine, signal.SIGTERM)
    os.kill(own.engine, signal.SIGINT)
    assert own.post("/embed", {"inputs": "still here"}).status_code == 200
    assert own.client.get("/info").json()["engine_restarts"] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.full(after=1)
def test_a_stop_lets_running_requests_finish(own: Server, number: signal.Signals) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        body = {"inputs": ["a long text " * 80] * 80}
        answer = pool.submit(httpx.post, f"{own.url}/embed", json=body, timeout=60)
        while not queued(own):
            assert not answer.done()
            time.sleep(0.01)
        assert own.stop(number) == 0
        assert answer.result().status_code == 200


@pytest.mark.full
def test_a_server_that_is_to_outlive_its_terminal_does(
    minilm_folder: object, tmp_path: Path
) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with Server(tmp_path / "log") as server:
            server.process.send_signal(signal.SIGHUP)
            time.sleep(0.3)
            assert server.client.get("/ready").status_code == 200
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.full
def test_a_stop_while_it_starts_is_told_in_no_traceback(
    minilm_folder: object, tmp_path: Path
) -> None:
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-m", "service", "serve", "--port", "0", "--workers", "2"]
        process = subprocess.Popen(command, stderr=log, start_new_session=True)
    while len(psutil.Process(process.pid).children()) < 2:
        time.sleep(0.01)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    assert process.wait(60) == 0
    assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.mark.full
def test_an_engine_that_is_ready_after_the_end_of_listening_answers_what_waits(
    own: Server,
) -> None:
    host, port = own.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: 15\r\n\r\n{")
        time.sleep(0.3)
        own.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)  # uvicorn looks ten times a second
        before = own.engine
        os.kill(before, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while own.log.count("listens on") < 2:
            assert own.process.poll() is None and time.monotonic() < deadline, own.log
            time.sleep(0.05)
        client.sendall(b'"inputs": "a"}')
        client.settimeout(20)
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
    assert own.process.wait(60) == 0
    assert "Traceback" not in own.log


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.full
def test_nothing_of_a_server_lies_where_temporary_files_are_cleaned_away(
    minilm_folder: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with Server(tmp_path / "log", workers=workers) as server:
        assert server.post("/embed", {"inputs": "a"}).status_code == 200
        assert not list(temporary.iterdir())


@pytest.mark.full
def test_a_request_that_does_not_finish_before_the_end_is_told_to_come_again(
    minilm_folder: object, tmp_path: Path
) -> None:
    with (
        Server(tmp_path / "log", shutdown_timeout=1) as server,
        concurrent.futures.ThreadPoolExecutor(4) as pool,
    ):
        os.kill(server.engine, signal.SIGSTOP)
        body = {"inputs": "a " * 8}
        answers = [
            pool.submit(httpx.post, f"{server.url}/embed", json=body, timeout=60) for _ in range(4)
        ]
        deadline = time.monotonic() + 60
        while "embedding_queued_tokens 40.0" not in server.client.get("/metrics").text:
            assert time.monotonic() < deadline, server.log
            time.sleep(0.01)
        assert server.stop() == 0
        for answer in answers:
            found = answer.result()
            assert error(found, 503)["code"] == "shutting_down"
            assert int(found.headers["retry-after"]) >= 1
            assert found.headers["connection"] == "close"
        assert "Traceback" not in server.log


@pytest.mark.full
def test_a_server_told_to_stop_is_not_ready_and_serves_until_the_gateway_has_seen_it(
    minilm_folder: object, tmp_path: Path
) -> None:
    with Server(tmp_path / "log", drain_delay=3) as server:
        server.process.send_signal(signal.SIGTERM)
        told = time.monotonic()
        while server.client.get("/ready").status_code == 200:
            time.sleep(0.01)
        if time.monotonic() - told < 1:  # else the machine is too busy to be asked meanwhile
            with httpx.Client(base_url=server.url) as new:
                for client in (server.client, new):
                    assert error(client.get("/ready"), 503)["code"] == "shutting_down"
                    assert client.post("/embed", json={"inputs": "a"}).status_code == 200
        assert server.process.wait(60) == 0
        assert time.monotonic() - told >= 3


@pytest.mark.full
def test_a_second_interrupt_ends_everything_at_once_and_in_order(
    minilm_folder: object, tmp_path: Path
) -> None:
    with Server(tmp_path / "log", drain_delay=10_000) as server:
        processes = psutil.Process(server.process.pid).children(recursive=True)
        server.process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + 60
        while server.client.get("/ready").status_code == 200:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(60) == 0
        assert not psutil.wait_procs(processes, 60)[1]
        assert "Traceback" not in server.log


def queued(server: Server) -> float:
    """The tokens that wait for the engine."""
    [tokens] = re.findall(r"(?m)^embedding_queued_tokens (\S+)", server.client.get("/metrics").text)
    return float(tokens)


def dropped(server: Server, last: float) -> float:
    """How many tokens were in the queue when it was last seen before it was empty.

    Few, where they are computed one batch after the other.
    """
    while seen := queued(server):
        last = seen
        time.sleep(0.005)
    return last


@pytest.mark.parametrize("words", [50, 250])
@pytest.mark.full
def test_a_client_that_hangs_up_takes_its_texts_out_of_the_queue(
    minilm_folder: object, tmp_path: Path, words: int
) -> None:
    # uvicorn stops reading from a connection, and so sees no end of it, at 64 KiB of body.
    texts = json.dumps({"inputs": ["a " * words] * (100_000 // words)}).encode()
    with Server(tmp_path / "log", max_batch_tokens=words) as server:
        address = server.url.removeprefix("http://").split(":")
        with socket.create_connection((address[0], int(address[1]))) as client:
            head = (
                f"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(texts)}\r\n\r\n"
            )
            client.sendall(head.encode())
            time.sleep(0.1)
            client.sendall(texts)
            while not (last := queued(server)):
                time.sleep(0.02)
        assert dropped(server, last) > 10_000
        assert server.post("/embed", {"inputs": "a"}).status_code == 200
        assert 'path="/embed",status="499"} 1.0' in server.client.get("/metrics").text
        assert "ERROR" not in server.log


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.full
def test_a_client_that_hangs_up_after_more_requests_takes_its_texts_out_of_the_queue(
    minilm_folder: object, tmp_path: Path, together: bool
) -> None:
    texts = json.dumps({"inputs": ["a " * 250] * 400}).encode()
    head = b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(texts)
    more = b"GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n" * 3
    with Server(tmp_path / "log", max_batch_tokens=250) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(head + texts + more * together)
            while not (last := queued(server)):
                time.sleep(0.02)
            client.sendall(more)
            time.sleep(0.1)
        assert dropped(server, last) > 10_000
        assert 'path="/embed",status="499"} 1.0' in server.client.get("/metrics").text
        assert "ERROR" not in server.log


@pytest.mark.full
def test_a_request_that_takes_too_long_is_given_up_and_its_work_dropped(
    minilm_folder: object, tmp_path: Path
) -> None:
    with Server(tmp_path / "log", request_timeout=1, max_batch_tokens=256) as server:
        text = "a long text " * 100  # fills a pass, so that it waits for all that came before
        found = error(server.post("/embed", {"inputs": [text] * 1000}), 504)
        assert found["code"] == "timeout"
        assert queued(server) < 10_000  # of 300,000
        assert server.post("/embed", {"inputs": text}).status_code == 200


@pytest.mark.full
def test_a_queue_that_is_too_long_refuses_and_says_when_to_return(
    minilm_folder: object, tmp_path: Path
) -> None:
    with Server(tmp_path / "log", max_wait=0.1) as server:
        body = {"inputs": ["a long text " * 80] * 16}

        def ask(_: int) -> httpx.Response:
            time.sleep(_ * 0.1)
            return httpx.post(f"{server.url}/embed", json=body, timeout=60)

        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            answers = list(pool.map(ask, range(24)))
        refused = [answer for answer in answers if answer.status_code == 429]
        assert refused and {answer.status_code for answer in answers} == {200, 429}
        assert error(refused[0], 429)["code"] == "overloaded"
        assert int(refused[0].headers["retry-after"]) >= 1


@pytest.mark.full
def test_a_query_does_not_wait_for_the_many_texts_that_came_before(
    minilm_folder: object, tmp_path: Path
) -> None:
    with Server(tmp_path / "log", max_wait=0.01) as server:
        body = json.dumps({"inputs": ["a long text " * 80] * 1200}).encode()
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as bulk:
            bulk.sendall(
                b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body)
                + body
            )
            while server.client.get("/ready").json()["queued_tokens"] < 250_000:
                time.sleep(0.01)
            refused = server.client.post("/embed", content=body)
            assert error(refused, 429)["code"] == "overloaded"
            assert server.post("/embed", {"inputs": "a query"}).status_code == 200
            bulk.settimeout(0.01)
            with pytest.raises(TimeoutError):
                bulk.recv(1)


@pytest.mark.full
def test_a_model_that_cannot_be_loaded_ends_the_server(tmp_path: Path) -> None:
    with (
        pytest.raises(AssertionError, match="not supported") as ended,
        Server(tmp_path / "log", dtype="float16"),
    ):
        pass
    assert "starting it again" not in str(ended.value)


def test_a_folder_that_is_no_model_is_told_in_a_line(tmp_path: Path) -> None:
    with (
        pytest.raises(AssertionError, match=r"^Error: .* is missing: not a model folder\n$"),
        Server(tmp_path / "log", model=tmp_path),
    ):
        pass


@pytest.mark.full
def test_an_engine_that_finds_its_model_deleted_ends_the_server_with_a_reason(
    minilm_folder: Path, tmp_path: Path
) -> None:
    model = shutil.copytree(minilm_folder, tmp_path / "model")
    with Server(tmp_path / "log", model=model) as server:
        shutil.rmtree(model)
        os.kill(server.engine, signal.SIGKILL)
        assert server.process.wait(60) == 1
        assert f"no model '{model}'" in server.log and "not started again" in server.log
        assert "Traceback" not in server.log


@pytest.mark.full
def test_a_process_for_http_that_finds_its_model_deleted_is_started_until_it_is_back(
    minilm_folder: Path, tmp_path: Path
) -> None:
    model = shutil.copytree(minilm_folder, tmp_path / "model")
    with Server(tmp_path / "log", model=model) as server:
        model.rename(tmp_path / "elsewhere")
        server.children("service.server.http_worker")[0].kill()
        deadline = time.monotonic() + 120
        while server.log.count("not a model folder") < 2:
            assert time.monotonic() < deadline, server.log
            time.sleep(0.1)
        (tmp_path / "elsewhere").rename(model)
        server.client.close()
        server.client = httpx.Client(base_url=server.url, timeout=60)
        server.wait_ready()
        assert "Traceback" not in server.log
