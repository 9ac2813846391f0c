"""SIGHUP: the models file is reloaded while clients send requests."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from embedwell.launch.reload import PlacedModels, read_in_thread
from tests.conftest import COMPILED, Folder
from tests.service.server import Options, SeveralModels

NOTHING_CHANGES = "the models file was not reloaded, and nothing changes: "


class Detached(SeveralModels):
    """A server without a terminal, as in a container or under systemd."""

    def launch(self) -> None:
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, env=self._environment, start_new_session=True
            )

    def read_anew(self, models: Mapping[str, Options]) -> str:
        """Write the file, let the server read it, and return what it logs about it."""
        lines = self.about_the_file()
        self.write(models)
        self.process.send_signal(signal.SIGHUP)
        self.wait_until(lambda: len(self.about_the_file()) > len(lines))
        return self.about_the_file()[-1]

    def about_the_file(self) -> list[str]:
        return [line for line in self.log.splitlines() if "the models file was" in line]

    @property
    def names(self) -> list[str]:
        return [each["id"] for each in self.client.get("/v1/models").json()["data"]]


@pytest.fixture(scope="module")
def source(tiny_bert: Folder) -> str:
    return str(tiny_bert(**COMPILED))


@pytest.fixture(scope="module")
def server(source: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Detached]:
    models = {"kept": {"source": source}, "removed": {"source": source, "pooling": "cls"}}
    folder = tmp_path_factory.mktemp("reload")
    # A load balancer must not notice the reload, so it does not wait for this.
    with Detached(folder, models, workers=2, drain_delay=10_000) as server:
        yield server
        server.process.send_signal(signal.SIGINT)
        server.wait_until(lambda: "stops after SIGINT" in server.log)
        server.process.send_signal(signal.SIGINT)  # ends at once


def test_models_are_added_and_removed_without_losing_a_request(
    server: Detached, source: str
) -> None:
    engines, ended, statuses = server.engines(), threading.Event(), list[int]()

    def send() -> None:
        while not ended.is_set():
            statuses.append(
                server.post("/embed", {"inputs": "a text", "model": "kept"}).status_code
            )

    client = threading.Thread(target=send)
    client.start()
    line = server.read_anew(
        {"added": {"source": source, "pooling": "max"}, "kept": {"source": source}}
    )
    ended.set()
    client.join()
    assert line.endswith("the models file was reloaded: added, kept")
    assert server.names == ["added", "kept"]
    assert len(statuses) > 1 and {*statuses} == {200}
    assert len(server.engines()) == 2 and len(server.engines() & engines) == 1
    for name, status in (("added", 200), ("removed", 404)):
        assert server.post("/embed", {"inputs": "a", "model": name}).status_code == status


def test_an_added_model_outlives_further_changes(server: Detached, source: str) -> None:
    models = {"kept": {"source": source}, "added": {"source": source, "pooling": "max"}}
    server.read_anew(models)
    for pooling in ("cls", "last"):
        server.read_anew({**models, "other": {"source": source, "pooling": pooling}})
    for name in ("kept", "added", "other"):
        assert server.post("/embed", {"inputs": "a", "model": name}).status_code == 200


def test_a_file_that_cannot_be_served_changes_nothing(
    server: Detached, source: str, tmp_path: Path
) -> None:
    names, engines = server.names, server.engines()
    damaged = Path(shutil.copytree(source, tmp_path / "damaged"))
    weights = damaged / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    for models, reason in (
        ({"new": {"sorce": source}}, "[new] has sorce"),
        ({"new": {"source": str(tmp_path / "missing")}}, "missing"),
        ({"new": {"source": str(damaged)}}, "damaged"),
    ):
        line = server.read_anew(models)
        assert NOTHING_CHANGES in line and reason in line
        assert (server.names, server.engines()) == (names, engines)


def test_a_server_that_stops_does_not_wait_for_the_file() -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def read() -> PlacedModels:
        begun.set()
        go_on.wait(20)
        ended.set()
        return []

    async def stop_meanwhile() -> None:
        reading = asyncio.create_task(read_in_thread(read))
        while not begun.is_set():
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
        assert reading.cancelled() and not ended.is_set()

    asyncio.run(stop_meanwhile())
    go_on.set()
    assert ended.wait(20)


ASKED_EARLY = """
import signal, sys
class Loads:
    def find_spec(self, name, *_):
        if name == "embedwell.launch.bootstrap":
            signal.raise_signal(signal.SIGHUP)
sys.meta_path.insert(0, Loads())
from embedwell.__main__ import main
main()
"""


class AskedEarly(Detached):
    """A server that gets SIGHUP while it fetches its models."""

    @property
    def command(self) -> list[str]:
        python, _, _, *arguments = super().command
        return [python, "-c", ASKED_EARLY, *arguments]


def test_a_server_that_starts_reloads_afterwards(source: str, tmp_path: Path) -> None:
    models = {"kept": {"source": source, "keep": "on_demand"}}
    with AskedEarly(tmp_path, models) as server:
        server.wait_until(server.about_the_file)
        assert server.names == ["kept"]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_process_knows_whether_it_has_a_terminal(terminal: bool) -> None:
    program = "from embedwell.launch.reload import has_terminal; print(has_terminal())"
    if terminal:
        program = f"import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY); {program}"
    primary, secondary = os.openpty()
    try:
        printed = subprocess.run(
            [sys.executable, "-c", program],
            stdin=secondary,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            start_new_session=True,
        )
    finally:
        os.close(primary)
        os.close(secondary)
    assert printed.stdout.strip() == str(terminal)
