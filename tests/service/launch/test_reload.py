"""SIGHUP: the models file is read anew while clients send requests."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.conftest import Folder
from tests.service.server import Options, SeveralModels

NOTHING_CHANGES = "the models file was not read anew, and nothing changes: "


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
    return str(tiny_bert())


@pytest.fixture(scope="module")
def server(source: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Detached]:
    models = {"kept": {"source": source}, "removed": {"source": source, "pooling": "cls"}}
    with Detached(tmp_path_factory.mktemp("reload"), models, workers=2) as server:
        yield server


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
    assert line.endswith("the models file was read anew: added, kept")
    assert server.names == ["added", "kept"]
    assert len(statuses) > 1 and {*statuses} == {200}
    assert len(server.engines()) == 2 and len(server.engines() & engines) == 1
    for name, status in (("added", 200), ("removed", 404)):
        assert server.post("/embed", {"inputs": "a", "model": name}).status_code == status


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
