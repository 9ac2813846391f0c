"""Start, crash, restart and shutdown of real server processes."""

import concurrent.futures
import contextlib
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Self

import httpx
import psutil
import pytest

from embedwell.launch.supervised import ENGINE, HTTP_PROCESS
from embedwell_models.precision.trials import MIN_COSINE, Trial
from tests.conftest import precisions
from tests.gateways import free_port
from tests.service.http.protocol.raw_http import connect
from tests.service.responses import error
from tests.service.server import Server


@pytest.fixture
def server(minilm_folder: object, tmp_path: Path) -> Iterator[Server]:
    """A server that the test ends."""
    with Server(tmp_path / "log") as server:
        yield server


@pytest.fixture(scope="module")
def shared(minilm_folder: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("shared") / "log") as server:
        yield server


@pytest.fixture
def lasting(shared: Server) -> Server:
    """A server of the tests that leave it able to work."""
    shared.wait_ready()
    return shared


def restarts(server: Server) -> int:
    """How often the engine was replaced."""
    return int(server.client.get("/info").json()["engine_restarts"])


@pytest.mark.full
def test_a_killed_http_process_is_restarted_and_the_engine_is_kept(lasting: Server) -> None:
    engine, [worker] = lasting.engine, lasting.children(HTTP_PROCESS)
    memory = worker.memory_full_info()
    assert memory.uss < 0.7 * memory.rss, "it shares what the first process imported"
    before = restarts(lasting)
    lasting.client.close()
    worker.kill()
    lasting.client = lasting.new_client()
    lasting.wait_ready()
    assert lasting.post("/embed", {"inputs": "a"}).status_code == 200
    assert lasting.engine == engine
    [successor] = lasting.children(HTTP_PROCESS)
    assert successor.memory_full_info().uss < 1.2 * memory.uss
    assert restarts(lasting) == before
    assert lasting.log.count("listens on") == 1


def test_the_first_process_imports_what_http_processes_share_for_a_second_one(
    server: Server,
) -> None:
    first, [worker] = psutil.Process(server.process.pid), server.children(HTTP_PROCESS)
    assert "httptools" in mapped_files(worker) and "httptools" not in mapped_files(first)
    server.client.close()
    worker.kill()
    server.client = server.new_client()
    server.wait_ready()
    assert "httptools" in mapped_files(first)


def mapped_files(process: psutil.Process) -> str:
    return " ".join(mapped.path for mapped in process.memory_maps())


@pytest.mark.full
def test_the_processes_without_the_model_are_small(lasting: Server) -> None:
    lasting.post("/embed", {"inputs": ["text " * 200] * 50})
    [worker] = lasting.children(HTTP_PROCESS)
    assert worker.memory_info().rss < 150e6
    first = psutil.Process(lasting.process.pid)
    assert first.memory_full_info().uss < 40e6  # it shares most with the others


@pytest.fixture(scope="module")
def measuring(minilm_folder: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that tries the number types, and chooses one."""
    with Server(tmp_path_factory.mktemp("auto") / "log", dtype="auto") as server:
        yield server


@pytest.mark.full
def test_auto_reports_its_trials_and_its_choice(measuring: Server) -> None:
    engine = measuring.client.get("/info").json()["engine"]
    trials = {trial["dtype"]: trial for trial in engine["trials"]}
    assert list(trials) == precisions()
    assert trials["float32"]["cosine"] == trials["float32"]["speedup"] == 1
    assert trials[engine["dtype"]]["cosine"] >= MIN_COSINE
    for name in set(trials) - {"float32"}:
        line = f"all-MiniLM-L6-v2 in {name}: cosine to float32 at least"
        cosines = (f"{trials[name][kind]:.5f}" for kind in ("cosine", "median_cosine"))
        assert "{} {} (median {})".format(line, *cosines) in measuring.log
        [logged] = [row for row in measuring.log.splitlines() if line in row]
        accurate = Trial(**trials[name]).is_accurate
        assert logged.endswith("; auto takes 0.9995 (median 0.9997) or more") != accurate


@pytest.mark.full
def test_the_server_answers_while_there_is_no_engine(lasting: Server) -> None:
    engine, first = lasting.engine, psutil.Process(lasting.process.pid)
    before = restarts(lasting)
    first.suspend()
    os.kill(engine, signal.SIGKILL)
    lasting.wait_until(lambda: lasting.client.get("/ready").status_code != 200)
    assert lasting.client.get("/live").status_code == 200
    response = lasting.client.get("/ready")
    assert error(response, 503)["code"] == "engine_unavailable"
    assert int(response.headers["retry-after"]) >= 1
    first.resume()
    assert lasting.post("/embed", {"inputs": "a"}).status_code == 200, (
        "it waits for the restarted engine"
    )
    assert restarts(lasting) == before + 1


@pytest.mark.full
def test_a_restarted_engine_does_not_repeat_the_trials(measuring: Server) -> None:
    before, trials = measuring.client.get("/info").json(), measuring.log.count("cosine to float32")
    os.kill(measuring.engine, signal.SIGKILL)
    replaced = f"engine replaced (restart {before['engine_restarts'] + 1})"
    measuring.wait_until(lambda: replaced in measuring.log)
    after = measuring.client.get("/info").json()
    assert after["engine"] == before["engine"]
    assert after["engine_restarts"] == before["engine_restarts"] + 1
    assert measuring.log.count("listens on") == 1
    assert measuring.log.count("cosine to float32") == trials
    assert "killed by signal 9, often for lack of memory" in measuring.log


@pytest.mark.full
def test_the_limit_of_open_files_is_raised_to_the_maximum(
    minilm_folder: object, tmp_path: Path
) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        with Server(tmp_path / "log") as server:
            [worker] = server.children(HTTP_PROCESS)
            limits = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert limits == (before[1], before[1])


def test_requests_pending_when_the_engine_dies_are_answered(lasting: Server) -> None:
    stop = threading.Event()
    statuses: list[int] = []
    before = restarts(lasting)

    def send_requests() -> None:
        with httpx.Client(base_url=lasting.url, timeout=90) as client:
            while not stop.is_set():
                response = client.post("/embed", json={"inputs": ["some words to embed"] * 8})
                statuses.append(response.status_code)

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        loops = [pool.submit(send_requests) for _ in range(16)]
        try:
            time.sleep(1)
            os.kill(lasting.engine, signal.SIGKILL)
            answered, deadline = len(statuses), time.monotonic() + 300
            while len(statuses) < answered + 50 and time.monotonic() < deadline:
                time.sleep(0.05)
        finally:
            stop.set()  # else the pool would wait for ever
        for loop in loops:
            loop.result(timeout=90)  # fails if one hangs or lost its connection
    assert set(statuses) == {200} and len(statuses) >= answered + 50
    assert restarts(lasting) == before + 1


@pytest.mark.full
def test_a_hung_engine_receives_no_more_work_and_is_replaced(lasting: Server) -> None:
    before, hangs = restarts(lasting), "the engine hangs and is killed"
    killed = lasting.log.count(hangs)
    os.kill(lasting.engine, signal.SIGSTOP)
    lasting.wait_until(lambda: lasting.client.get("/ready").status_code != 200, 120)
    lasting.wait_until(lambda: lasting.log.count(hangs) > killed, 120)
    lasting.wait_ready(120)
    assert lasting.post("/embed", {"inputs": "a"}).status_code == 200
    assert restarts(lasting) == before + 1


def suspend_engines(server: Server) -> None:
    """Suspend each engine as soon as it is forked, until the server has ended."""
    while server.process.poll() is None:
        with contextlib.suppress(psutil.Error):  # a process that has just ended
            for engine in server.children(ENGINE):
                engine.suspend()
        time.sleep(0.005)


@pytest.mark.full
def test_the_server_ends_if_loading_the_model_times_out(tmp_path: Path) -> None:
    server = Server(tmp_path / "log", load_timeout=0.5)
    server.launch()
    suspend_engines(server)
    assert server.process.poll() == 1
    assert "the engine is not ready after 0.5 s (EMBEDWELL_LOAD_TIMEOUT; raise it)" in server.log
    assert "was started 5 times and was never ready" in last_line(server)


@pytest.mark.parametrize("limit", [8, 14])
def test_the_server_ends_if_there_are_too_few_file_descriptors(
    minilm_folder: object, limit: int
) -> None:
    # Set in a shell, as a hard limit lowered in this process could not be raised again.
    command = f"ulimit -n {limit}; exec {shlex.quote(sys.executable)} -m embedwell serve --port 0"
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"may open only {limit} files; raise the limit with ulimit -n 1024" in done.stderr


@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.full
def test_no_process_outlives_the_first_one(server: Server, hangs: bool) -> None:
    processes = psutil.Process(server.process.pid).children(recursive=True)
    if hangs:
        psutil.Process(server.engine).suspend()
    server.process.kill()
    _, alive = psutil.wait_procs(processes, 60)
    assert not alive


@pytest.mark.full
def test_an_engine_that_was_ready_is_replaced_without_a_delay(lasting: Server) -> None:
    before, at_once = restarts(lasting), "often for lack of memory; starting another\n"
    earlier = lasting.log.count(at_once)
    for number in (1, 2, 3):
        os.kill(lasting.engine, signal.SIGKILL)
        line = f"engine replaced (restart {before + number})"
        lasting.wait_until(partial(_is_logged, lasting, line))
    assert lasting.log.count(at_once) == earlier + 3


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.full
def test_a_server_has_a_first_process_an_engine_and_http_processes_but_no_temporary_files(
    minilm_folder: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with Server(tmp_path / "log", workers=workers) as server:
        server.wait_until(lambda: len(server.children(HTTP_PROCESS)) == workers)
        first = psutil.Process(server.process.pid)
        assert len(first.children(recursive=True)) == 1 + workers
        assert server.engine in {child.pid for child in first.children()}
        assert first.num_threads() == 1  # otherwise it could not fork
        assert server.post("/embed", {"inputs": "a"}).status_code == 200
        assert not list(temporary.iterdir())


@pytest.mark.full
def test_the_engine_ignores_signals_to_stop(lasting: Server) -> None:
    before = restarts(lasting)
    os.kill(lasting.engine, signal.SIGTERM)
    os.kill(lasting.engine, signal.SIGINT)
    assert lasting.post("/embed", {"inputs": "still here"}).status_code == 200
    assert restarts(lasting) == before


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.full(after=1)
def test_shutdown_lets_running_requests_finish(
    server: Server, signal_number: signal.Signals
) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        body = {"inputs": ["a long text " * 80] * 20}
        pending = pool.submit(httpx.post, f"{server.url}/embed", json=body, timeout=60)
        while not queued(server):
            assert not pending.done()
            time.sleep(0.01)
        assert server.stop(signal_number) == 0
        assert pending.result().status_code == 200


@pytest.mark.full
def test_a_server_started_by_nohup_ignores_sighup(minilm_folder: object, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with Server(tmp_path / "log") as server:
            server.process.send_signal(signal.SIGHUP)
            time.sleep(0.3)
            assert server.client.get("/ready").status_code == 200
    finally:
        signal.signal(signal.SIGHUP, before)


class ServerWithoutInput(Server):
    """A server whose standard input is closed, as a shell's `<&-` does."""

    @property
    def command(self) -> list[str]:
        return ["sh", "-c", 'exec "$@" <&-', "sh", *super().command]


def test_a_server_whose_standard_input_is_closed_serves(
    minilm_folder: object, tmp_path: Path
) -> None:
    with ServerWithoutInput(tmp_path / "log") as server:
        assert server.post("/embed", {"inputs": "a"}).status_code == 200


@pytest.mark.full
def test_an_interrupt_during_startup_logs_no_traceback(
    minilm_folder: object, tmp_path: Path
) -> None:
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-m", "embedwell", "serve", "--port", "0", "--workers", "2"]
        process = subprocess.Popen(command, stderr=log, start_new_session=True)
    while len(psutil.Process(process.pid).children()) < 2:
        time.sleep(0.01)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    assert process.wait(60) == 0
    assert "Traceback" not in (tmp_path / "log").read_text()


class LoadingServer(Server):
    """A server whose engine is suspended while it loads the model."""

    def __init__(self, log: Path, **settings: object) -> None:
        super().__init__(log, free_port(), **settings)

    def __enter__(self) -> Self:
        self.launch()
        os.kill(self.engine, signal.SIGSTOP)
        assert "is ready after" not in self.log
        self.connect(f"http://127.0.0.1:{self._port}")
        return self

    def stop(self, number: signal.Signals = signal.SIGKILL) -> int:
        """End a server that a test has not ended, even one that drains."""
        return super().stop(number)

    def interrupt(self) -> None:
        """Send the signal of Ctrl-C, and wait until it is noted."""
        self.process.send_signal(signal.SIGINT)
        self.wait_until(lambda: "the server stops after SIGINT" in self.log)


def test_a_server_that_is_interrupted_while_it_loads_ends_without_an_error(
    minilm_folder: object, tmp_path: Path
) -> None:
    with LoadingServer(tmp_path / "log") as server:
        server.interrupt()
        assert server.process.wait(60) == 0
        assert "ERROR" not in server.log and "is ready after" not in server.log


def test_a_server_that_stops_does_not_say_that_it_is_ready(
    minilm_folder: object, tmp_path: Path
) -> None:
    with LoadingServer(tmp_path / "log", drain_delay=10_000) as server:
        server.interrupt()
        os.kill(server.engine, signal.SIGCONT)
        server.wait_until(lambda: server.post("/embed", {"inputs": "a"}).status_code == 200)
        assert "is ready after" not in server.log and "listens on" not in server.log
        server.interrupt()  # the second one ends the wait
        assert server.process.wait(60) == 0


@pytest.mark.full
def test_an_engine_restarted_during_shutdown_answers_pending_requests(
    server: Server,
) -> None:
    with connect(server) as client:
        client.sendall(b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: 15\r\n\r\n{")
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)  # uvicorn looks ten times a second
        before = server.engine
        os.kill(before, signal.SIGKILL)
        deadline = time.monotonic() + 120
        while "engine replaced" not in server.log:
            assert server.process.poll() is None and time.monotonic() < deadline, server.log
            time.sleep(0.05)
        client.sendall(b'"inputs": "a"}')
        client.settimeout(120)
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
    assert server.process.wait(60) == 0
    assert "Traceback" not in server.log


@pytest.mark.full
def test_requests_unfinished_at_the_shutdown_timeout_get_status_503(
    minilm_folder: object, tmp_path: Path
) -> None:
    with (
        Server(tmp_path / "log", shutdown_timeout=1) as server,
        concurrent.futures.ThreadPoolExecutor(4) as pool,
    ):
        os.kill(server.engine, signal.SIGSTOP)
        body = {"inputs": "a " * 8}
        responses = [
            pool.submit(httpx.post, f"{server.url}/embed", json=body, timeout=60) for _ in range(4)
        ]
        server.wait_until(
            lambda: "embedwell_queued_tokens 40.0" in server.client.get("/metrics").text
        )
        assert server.stop() == 0
        for pending in responses:
            response = pending.result()
            assert error(response, 503)["code"] == "shutting_down"
            assert int(response.headers["retry-after"]) >= 1
            assert response.headers["connection"] == "close"
        assert "Traceback" not in server.log


@pytest.mark.full
def test_a_draining_server_is_not_ready_but_answers_requests(
    minilm_folder: object, tmp_path: Path
) -> None:
    with Server(tmp_path / "log", drain_delay=3) as server:
        server.process.send_signal(signal.SIGTERM)
        stopped_at = time.monotonic()
        while server.client.get("/ready").status_code == 200:
            time.sleep(0.01)
        if time.monotonic() - stopped_at < 1:  # else the machine is too slow to test the drain
            with httpx.Client(base_url=server.url, timeout=120) as new:
                for client in (server.client, new):
                    assert error(client.get("/ready"), 503)["code"] == "shutting_down"
                    assert client.post("/embed", json={"inputs": "a"}).status_code == 200
        assert server.process.wait(60) == 0
        assert time.monotonic() - stopped_at >= 3


@pytest.mark.full
def test_a_second_interrupt_ends_all_processes_at_once(
    minilm_folder: object, tmp_path: Path
) -> None:
    with Server(tmp_path / "log", drain_delay=10_000) as server:
        processes = psutil.Process(server.process.pid).children(recursive=True)
        server.process.send_signal(signal.SIGINT)
        server.wait_until(lambda: server.client.get("/ready").status_code != 200)
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(60) == 0
        assert not psutil.wait_procs(processes, 60)[1]
        assert "Traceback" not in server.log


def queued(server: Server) -> float:
    """The number of tokens that wait for the engine."""
    [tokens] = re.findall(r"(?m)^embedwell_queued_tokens (\S+)", server.client.get("/metrics").text)
    return float(tokens)


def queued_at_drop(server: Server, last: float) -> float:
    """The number of queued tokens in the last sample before the queue was empty.

    It is small if the tokens are computed batch by batch, and large if they are dropped at once.
    """
    while tokens := queued(server):
        last = tokens
        time.sleep(0.005)
    return last


@pytest.fixture(scope="module")
def slow_server(
    minilm_folder: object, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server whose engine computes some long text at a time."""
    with Server(tmp_path_factory.mktemp("slow") / "log", max_batch_tokens=250) as server:
        yield server


def disconnects(server: Server) -> float:
    """The number of requests for vectors whose clients did not wait for the response."""
    pattern = r'path="/embed",status="499"} (\S+)'
    return float((re.findall(pattern, server.client.get("/metrics").text) or [0])[0])


@pytest.mark.parametrize("words", [50, 250])
@pytest.mark.full
def test_a_disconnect_removes_the_texts_from_the_queue(slow_server: Server, words: int) -> None:
    # uvicorn stops reading at 64 KiB of body, and so would not notice the disconnect.
    texts = json.dumps({"inputs": ["a " * words] * (100_000 // words)}).encode()
    before = disconnects(slow_server)
    with connect(slow_server) as client:
        head = f"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(texts)}\r\n\r\n"
        client.sendall(head.encode())
        time.sleep(0.1)
        client.sendall(texts)
        while not (last := queued(slow_server)):
            time.sleep(0.02)
    assert queued_at_drop(slow_server, last) > 10_000
    assert slow_server.post("/embed", {"inputs": "a"}).status_code == 200
    assert disconnects(slow_server) == before + 1
    assert "ERROR" not in slow_server.log


@pytest.mark.parametrize("in_one_read", [True, False])
@pytest.mark.full
def test_a_disconnect_after_pipelined_requests_removes_the_texts_from_the_queue(
    slow_server: Server, in_one_read: bool
) -> None:
    texts = json.dumps({"inputs": ["a " * 250] * 400}).encode()
    head = b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(texts)
    next_requests = b"GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n" * 3
    before = disconnects(slow_server)
    with connect(slow_server) as client:
        client.sendall(head + texts + next_requests * in_one_read)
        while not (last := queued(slow_server)):
            time.sleep(0.02)
        client.sendall(next_requests)
        time.sleep(0.1)
    assert queued_at_drop(slow_server, last) > 10_000
    slow_server.wait_until(lambda: disconnects(slow_server) == before + 1)
    assert "ERROR" not in slow_server.log


@pytest.mark.full
def test_a_request_that_times_out_is_removed_from_the_queue(
    minilm_folder: object, tmp_path: Path
) -> None:
    with Server(tmp_path / "log", request_timeout=1, max_batch_tokens=256) as server:
        text = "a long text " * 100  # fills a batch, so that it waits for all earlier texts
        failure = error(server.post("/embed", {"inputs": [text] * 1000}), 504)
        assert failure["code"] == "timeout"
        assert queued(server) < 10_000  # of 300,000
        assert server.post("/embed", {"inputs": text}).status_code == 200


@pytest.mark.full
def test_a_full_queue_refuses_requests_with_retry_after(
    minilm_folder: object, tmp_path: Path
) -> None:
    with Server(tmp_path / "log", max_wait_large=0.5) as server:
        body = {"inputs": ["a long text " * 80] * 16}

        def send_later(index: int) -> httpx.Response:
            time.sleep(index * 0.1)
            return httpx.post(f"{server.url}/embed", json=body, timeout=60)

        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            responses = list(pool.map(send_later, range(24)))
        refused = [response for response in responses if response.status_code == 429]
        assert refused and {response.status_code for response in responses} == {200, 429}
        assert error(refused[0], 429)["code"] == "overloaded"
        assert int(refused[0].headers["retry-after"]) >= 1


@pytest.mark.full
def test_a_query_does_not_wait_for_an_earlier_large_request(
    minilm_folder: object, tmp_path: Path
) -> None:
    with Server(tmp_path / "log", max_wait=0.01, max_wait_large=0.05) as server:
        body = json.dumps({"inputs": ["a long text " * 80] * 1200}).encode()
        with connect(server) as bulk:
            os.kill(server.engine, signal.SIGSTOP)  # so that the texts wait until they are seen
            bulk.sendall(
                b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body)
                + body
            )
            server.wait_until(lambda: queued(server) >= 250_000)
            refused = server.client.post("/embed", content=body)
            assert error(refused, 429)["code"] == "overloaded"
            with connect(server) as unread:  # refused by its size
                unread.sendall(
                    b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n"
                    % len(body)
                )
                assert b" 429 " in unread.recv(1 << 16)
                unread.sendall(body + b"GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n")
                assert b" 200 " in unread.recv(1 << 16)
            os.kill(server.engine, signal.SIGCONT)
            assert server.post("/embed", {"inputs": "a query"}).status_code == 200
            bulk.settimeout(0.01)
            with pytest.raises(TimeoutError):
                bulk.recv(1)


def _is_logged(server: Server, line: str) -> bool:
    return line in server.log


def last_line(server: Server) -> str:
    return server.log.splitlines()[-1]


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.full
def test_the_reason_is_the_last_line_of_a_server_whose_engine_cannot_start(
    minilm_folder: object, tmp_path: Path, log_format: str
) -> None:
    server = Server(tmp_path / "log", dtype="float16", log_format=log_format)
    with pytest.raises(AssertionError), server:
        pass
    reason = "the server ends: all-MiniLM-L6-v2 cannot be loaded: dtype float16 is not supported"
    assert server.process.wait(60) == 1
    assert reason in last_line(server) and server.log.count("not supported") == 1
    assert "starting another" not in server.log
    if log_format == "json":
        assert json.loads(last_line(server))["message"].startswith(reason)


def test_the_reason_is_the_last_line_of_a_server_of_a_folder_without_a_model(
    tmp_path: Path,
) -> None:
    server = Server(tmp_path / "log", model=tmp_path)
    with pytest.raises(AssertionError), server:
        pass
    assert server.process.wait(60) == 1
    # The engine or the HTTP process, whichever reads the files first.
    reason = re.escape(f"{tmp_path / 'config.json'} is missing: not a model folder")
    assert re.search(rf"the server ends: (\S+ cannot be loaded: )?{reason}", last_line(server))
    assert server.log.count("not a model folder") == 1


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_the_reason_is_the_last_line_of_a_server_whose_model_cannot_be_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log_format: str
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    name = "organisation/unknown"
    server = Server(tmp_path / "log", model=name, cache=tmp_path, log_format=log_format)
    with pytest.raises(AssertionError), server:
        pass
    assert server.process.wait(60) == 1
    line = last_line(server)
    message = json.loads(line)["message"] if log_format == "json" else line
    assert message.startswith("Error: ")
    assert f"'{name}' could not be fetched from the hub: " in message


@pytest.mark.full
def test_the_reason_is_the_last_line_of_a_server_whose_kept_model_cannot_be_loaded(
    minilm_folder: Path, tmp_path: Path
) -> None:
    bad = shutil.copytree(minilm_folder, tmp_path / "bad")
    os.truncate(bad / "model.safetensors", 1000)
    models = tmp_path / "models.toml"
    models.write_text(f"[good]\nsource = '{minilm_folder}'\n[bad]\nsource = '{bad}'\n")
    server = Server(tmp_path / "log", models_file=models)
    with pytest.raises(AssertionError), server:
        pass
    assert server.process.wait(60) == 1
    assert "the server ends: bad cannot be loaded: " in last_line(server)


@pytest.mark.full
def test_the_server_ends_if_the_engine_finds_its_model_deleted(
    minilm_folder: Path, tmp_path: Path
) -> None:
    model = shutil.copytree(minilm_folder, tmp_path / "model")
    with Server(tmp_path / "log", model=model) as server:
        shutil.rmtree(model)
        os.kill(server.engine, signal.SIGKILL)
        assert server.process.wait(60) == 1
        assert f"{model}/config.json is missing" in last_line(server)
        assert last_line(server).endswith("(the engine is not restarted)")
        assert "Traceback" not in server.log


@pytest.mark.full
def test_an_http_process_is_restarted_until_a_deleted_model_is_back(
    minilm_folder: Path, tmp_path: Path
) -> None:
    model = shutil.copytree(minilm_folder, tmp_path / "model")
    with Server(tmp_path / "log", model=model) as server:
        model.rename(tmp_path / "elsewhere")
        server.children(HTTP_PROCESS)[0].kill()
        server.wait_until(lambda: server.log.count("not a model folder") >= 2, 120)
        (tmp_path / "elsewhere").rename(model)
        server.client.close()
        server.client = httpx.Client(base_url=server.url, timeout=60)
        server.wait_ready()
        assert "Traceback" not in server.log
