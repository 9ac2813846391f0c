"""A server on a Unix socket, and the file of the socket."""

import contextlib
import os
import signal
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from embedwell.launch.supervised import HTTP_PROCESS
from embedwell.launch.unix_socket import UnixListener
from tests.conftest import COMPILED, Folder
from tests.service.server import UnixServer

CHECK = b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def path() -> Iterator[Path]:
    """A path short enough for a socket, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "socket"


def test_only_the_user_connects_and_the_file_is_removed_at_the_end(path: Path) -> None:
    with UnixListener(path, 8) as listener, closing_client() as client:
        assert stat.filemode(path.lstat().st_mode) == "srw-------"
        client.connect(str(path))
        listener.accept()[0].close()
    assert not path.exists()


def test_the_socket_of_a_server_that_was_killed_is_replaced(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    with UnixListener(path, 8), closing_client() as client:
        client.connect(str(path))


def test_the_socket_of_a_running_server_is_kept(path: Path) -> None:
    with UnixListener(path, 0) as listener, closing_client() as client:
        client.connect(str(path))  # the queue is full
        with pytest.raises(OSError, match="another server listens on it; choose another path with"):
            UnixListener(path, 8)
        listener.accept()[0].close()
        assert path.exists()


def test_a_file_of_another_kind_is_kept(path: Path) -> None:
    path.write_text("data")
    with pytest.raises(OSError, match="this file is not a socket"):
        UnixListener(path, 8)
    assert path.read_text() == "data"


def test_a_path_that_no_socket_can_have_is_refused(path: Path) -> None:
    with pytest.raises(OSError, match="path too long; choose another path"):
        UnixListener(path.with_name("long" * 40), 8)
    with pytest.raises(OSError, match="No such file or directory; choose another path"):
        UnixListener(path / "socket", 8)


def test_a_server_that_ends_keeps_the_socket_of_its_successor(path: Path) -> None:
    with UnixListener(path, 8) as ending:
        ending.shutdown(socket.SHUT_RD)
        with UnixListener(path, 8), closing_client() as client:
            ending.close()
            client.connect(str(path))


def test_of_servers_that_start_at_once_one_listens(path: Path) -> None:
    def start(_: int) -> UnixListener | None:
        with contextlib.suppress(OSError):
            return UnixListener(path, 8)
        return None

    with ThreadPoolExecutor(8) as pool:
        started = list(pool.map(start, range(8)))
    [listener] = filter(None, started)
    with listener, closing_client() as client:
        client.connect(str(path))


@pytest.fixture(scope="module")
def server(tiny_bert: Folder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UnixServer]:
    log = tmp_path_factory.mktemp("unix") / "log"
    with tempfile.TemporaryDirectory() as folder:
        socket_path = Path(folder) / "socket"
        settings: dict[str, Any] = {
            "model": tiny_bert(**COMPILED),
            "log_level": "debug",
            "workers": 2,
        }
        with UnixServer(log, socket_path, **settings) as server:
            yield server
        assert not socket_path.exists()


def test_a_server_listens_on_the_socket_alone(server: UnixServer) -> None:
    [example] = [line for line in server.log.splitlines() if line.startswith("try: ")]
    command = ["bash", "-c", example.removeprefix("try: ")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[[")
    assert 'unix - "POST /embed HTTP/1.1" 200' in server.log
    assert "http://127" not in server.log and "warning" not in server.log


def test_another_server_on_the_same_socket_does_not_start(
    server: UnixServer, tiny_bert: Folder, tmp_path: Path
) -> None:
    other = UnixServer(tmp_path / "log", server.socket, model=tiny_bert(**COMPILED))
    other.launch()
    assert other.process.wait(120) == 1
    last = other.log.splitlines()[-1]
    assert "cannot listen on" in last and "another server listens on it; choose another" in last
    assert server.client.get("/ready").status_code == 200


def test_every_http_process_serves_the_socket(server: UnixServer) -> None:
    workers = {worker.pid for worker in server.children(HTTP_PROCESS)}
    assert len(workers) == 2
    served = set[int]()
    with contextlib.ExitStack() as stack:

        def connect() -> bool:
            client = stack.enter_context(server.new_client())
            client.get("/live")
            served.update(pid for pid in workers if has_client(pid, server.socket))
            return served == workers

        server.wait_until(connect)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_replaced_http_process_listens_again(server: UnixServer, number: int) -> None:
    for worker in server.children(HTTP_PROCESS):
        worker.send_signal(number)
        worker.wait(60)
    with server.new_client() as client:  # it waits to be accepted
        assert client.post("/embed", json={"inputs": "a"}).status_code == 200


def test_processes_that_a_server_leaves_behind_serve_no_further_requests(
    tiny_bert: Folder, path: Path, tmp_path: Path
) -> None:
    """So that the next server can take its place while they finish their requests."""
    with UnixServer(
        tmp_path / "log", path, model=tiny_bert(**COMPILED), shutdown_timeout=1000
    ) as server:
        [worker] = server.children(HTTP_PROCESS)
        with closing_client() as client, closing_client() as idle:
            idle.connect(str(path))
            idle.sendall(CHECK)
            assert idle.recv(999).startswith(b"HTTP/1.1 200")
            client.connect(str(path))
            head = b"POST /embed HTTP/1.1\r\nHost: a\r\nContent-Length: 15\r\n"
            client.sendall(head + b"Expect: 100-continue\r\n\r\n")
            assert client.recv(12) == b"HTTP/1.1 100"
            os.kill(server.process.pid, signal.SIGKILL)
            server.wait_until(lambda: not is_listening(path))
            with contextlib.suppress(OSError):
                idle.sendall(CHECK)
                assert not idle.recv(999)
            assert not has_ended(worker)
        server.wait_until(lambda: has_ended(worker))


def has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE  # without a parent that collects it
    except psutil.NoSuchProcess:
        return True


def is_listening(path: Path) -> bool:
    with closing_client() as client:
        return client.connect_ex(str(path)) == 0


def has_client(pid: int, path: Path) -> bool:
    """Whether a process has a connection of the socket, besides the socket itself."""
    sockets = psutil.Process(pid).net_connections("unix")
    return len([each for each in sockets if str(each.laddr) == str(path)]) > 1


def closing_client() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
