"""`Client.local` and `embedwell local`: the server that all programs of a user share."""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import httpx
import psutil
import pytest

from embedwell_client import AsyncClient, Client, RequestFailed
from embedwell_client.local_server import LocalServer, local_server, server_environment
from embedwell_client.local_server import runtime_folder as runtime_folder_of_user
from tests.conftest import COMPILED, Folder

PAGE = Path(__file__).parents[3] / "docs/local-server.md"
pytestmark = pytest.mark.filterwarnings(
    # httpcore does not close the socket of a failed connection
    "ignore:Exception ignored in. <socket.socket fd=:pytest.PytestUnraisableExceptionWarning"
)
OTHER_VERSION = """
import embedwell
embedwell.__version__ = "0.0.1"
from embedwell.__main__ import main
main()
"""
TWENTY_AT_ONCE = """
import os, signal, sys
from embedwell_client import Client
signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
for number in range(20):
    if not os.fork():
        with Client.local(sys.argv[1]) as client:
            shape = client.embed(f"text {number}").shape
        os.write(1, f"{shape}\\n".encode())
        os._exit(0)
for number in range(20):
    os.wait()
"""


@pytest.fixture(scope="module")
def model(tiny_bert: Folder) -> str:
    return str(tiny_bert(**COMPILED))


@pytest.fixture(scope="module")
def other_model(model: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(shutil.copytree(model, tmp_path_factory.mktemp("other") / "model"))


@pytest.fixture(scope="module")
def runtime_folder() -> Iterator[Path]:
    """Folder of a user's sockets; its path is short, as that of a socket must be."""
    with tempfile.TemporaryDirectory(prefix="ew-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", folder)
        patch.setenv("EMBEDWELL_DTYPE", "float32")  # nothing is measured
        yield Path(folder)


@pytest.fixture(scope="module")
def server(runtime_folder: Path, model: str) -> Iterator[LocalServer]:
    server = local_server(model)
    yield server
    server.stop()


def first_processes(server: LocalServer) -> list[int]:
    """Return the process ids of the servers at the socket, without those that they forked."""
    processes = {
        process.pid: process.info["ppid"]
        for process in psutil.process_iter(["cmdline", "ppid"])
        if str(server.socket) in (process.info["cmdline"] or ())
    }
    return [pid for pid, parent in processes.items() if parent not in processes]


def process_id(server: LocalServer) -> int:
    return int((server.folder / "server.pid").read_text())


def kill(server: LocalServer) -> int:
    """Kill the server, wait until no process of it listens, and return its process id."""
    pid = process_id(server)
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while is_listening(server.socket):
        assert time.monotonic() < deadline, server.log.read_text()
        time.sleep(0.02)
    return pid


def is_listening(path: Path) -> bool:
    with closing(socket.socket(socket.AF_UNIX)) as client:
        return client.connect_ex(str(path)) == 0


def test_a_server_that_cannot_start_shows_the_end_of_its_log(server: LocalServer) -> None:
    with Client.local("no-such-model") as client:
        with pytest.raises(RequestFailed) as raised:
            client.embed("a text")
        assert raised.value.code == "local_server"
        assert f"did not start; the end of {server.log}:\nError: no model" in str(raised.value)


def test_twenty_processes_at_once_start_one_server(server: LocalServer, model: str) -> None:
    printed = subprocess.run(
        [sys.executable, "-c", TWENTY_AT_ONCE, model],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    assert len(printed.splitlines()) == 20 and len({*printed.splitlines()}) == 1
    assert len(first_processes(server)) == 1
    assert server.folder.stat().st_mode & 0o777 == 0o700


def test_models_are_added_to_the_server(
    server: LocalServer, model: str, other_model: str, tmp_path: Path
) -> None:
    server.connect()
    pid = process_id(server)
    removed = str(shutil.copytree(model, tmp_path / "removed"))
    for path in (removed, model):
        with Client.local(path) as client:
            assert client.info()["source"] == path
    shutil.rmtree(removed)
    with pytest.raises(RequestFailed, match=r"cannot serve no-such-model: .*'no-such-model'"):
        Client.local("no-such-model").info()
    with Client.local(other_model) as client:
        assert client.info()["source"] == other_model
    assert process_id(server) == pid


def test_the_next_request_starts_a_server_that_was_killed(
    server: LocalServer, model: str, other_model: str
) -> None:
    with Client.local(model) as client:
        shape = client.embed("a text").shape
        killed = kill(server)
        assert client.embed("a text").shape == shape
        assert process_id(server) != killed
        kill(server)
        local_server(other_model).connect()  # starts a server without the first model
        assert client.embed("a text").shape == shape


def test_the_asyncio_client_starts_the_server(server: LocalServer, model: str) -> None:
    async def embed() -> None:
        async with AsyncClient.local(model, batch=1) as client:
            assert (await client.embed(["a text"] * 3)).shape[0] == 3
            killed = kill(server)
            assert (await client.embed(["a text"] * 3)).shape[0] == 3
            assert process_id(server) != killed

    asyncio.run(embed())


def test_the_command_prints_the_address(server: LocalServer, model: str) -> None:
    command = [sys.executable, "-m", "embedwell", "local", model, "--json"]
    address = json.loads(subprocess.check_output(command))
    with httpx.Client(transport=httpx.HTTPTransport(uds=address["socket"])) as client:
        assert client.get(f"{address['url']}/ready").status_code == 200


def test_the_blocks_of_the_page_run(server: LocalServer) -> None:
    text, _ = PAGE.read_text(encoding="utf-8").split("## A server on a Unix socket\n")
    [python], [script] = (
        re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL) for language in ("python", "sh")
    )
    code = f"{python}\nassert vectors.shape == (1, 384)\nclient.close()"
    subprocess.run([sys.executable, "-c", code], check=True)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    printed = subprocess.check_output(["bash", "-ec", script], env={**os.environ, "PATH": programs})
    assert len(json.loads(printed)[0]) == 384


def test_the_command_stops_the_server(server: LocalServer) -> None:
    server.connect()
    command = [sys.executable, "-m", "embedwell", "local", "--stop"]
    subprocess.run(command, check=True)
    assert not server.socket.exists()


def test_a_server_of_another_version_is_named_and_replaced_when_idle(
    server: LocalServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.stop()
    other = replace(server, command=(sys.executable, "-c", OTHER_VERSION), replaces=False)
    other.connect()
    pid = process_id(server)
    warning = f"the local server is embedwell 0.0.1 and this client is {version('embedwell')};"
    assert warning in caplog.text
    with Client(server.url, transport=server.transport()) as client:
        client.embed("a text")  # loads the model
        server.connect()
        assert process_id(server) == pid
        server.stop()
        other.connect()
        server.connect()
        assert client.info()["version"] == version("embedwell")


def test_a_folder_that_others_can_open_is_refused(server: LocalServer, model: str) -> None:
    server.folder.chmod(0o755)
    try:
        with pytest.raises(RequestFailed, match="only this user can open"):
            Client.local(model)
    finally:
        server.folder.chmod(0o700)


def test_a_link_in_place_of_the_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "embedwell").symlink_to(tmp_path / "removed")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(RequestFailed, match="only this user can open"):
        runtime_folder_of_user()


def test_the_server_has_the_folder_of_models_that_its_starter_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Because it runs in another folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EMBEDWELL_CACHE", "models")
    assert server_environment()["EMBEDWELL_CACHE"] == str(tmp_path / "models")
