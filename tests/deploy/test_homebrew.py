"""The Homebrew formula of a release, installed by a stand-in for Homebrew."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

import embedwell
import hatch_build
from embedwell_models.cpu_backend import library
from tests.distributions import ROOT, build, unpack
from tests.programs import program
from tests.service.server import UnixServer

STANDIN = Path(__file__).with_name("homebrew.rb")
FIELDS = re.compile(r'url "(\S+)"\n +sha256 "(\w+)"')
RELEASE = "https://embedwell.example/releases/v1"


class Formula(NamedTuple):
    """A formula, and the source distribution that it installs."""

    file: Path
    source: Path

    @property
    def hashes(self) -> dict[str, str]:
        """The SHA-256 of each file that the formula downloads, by its URL."""
        return dict(FIELDS.findall(self.file.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def formula(tmp_path_factory: pytest.TempPathFactory) -> Formula:
    folder = tmp_path_factory.mktemp("homebrew")
    source = build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))
    command = [sys.executable, "deploy/homebrew/formula.py", str(source), RELEASE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if "Failed to fetch" in done.stderr:
        pytest.skip(f"needs a package index that uv can reach: {done.stderr}")
    assert done.returncode == 0, done.stderr
    file = folder / "embedwell.rb"
    file.write_text(done.stdout)
    return Formula(file, source)


@pytest.fixture(scope="module")
def prefix() -> Iterator[Path]:
    """The folder of Homebrew, whose path is short enough for a socket in it."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def installed(
    formula: Formula, prefix: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What the formula says and does as it is installed and tested."""
    ruby = program("ruby", "ruby")
    source = unpack(formula.source, tmp_path_factory.mktemp("source"))
    for path in (ROOT / hatch_build.KERNELS).glob("*.so"):
        shutil.copy(path, source / hatch_build.KERNELS)
    files = [STANDIN, formula.file, prefix, source]
    command = [ruby, *map(str, files), sys.executable]
    environment = {**os.environ, "KERNELS": "compiled"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    printed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return printed


class Service(UnixServer):
    """The server, run by the command of the formula's service."""

    def __init__(self, log: Path, command: list[str]) -> None:
        super().__init__(log, Path(command[-1]))
        self._command = command

    @property
    def command(self) -> list[str]:
        return self._command


@pytest.mark.full
@pytest.mark.needs("uv")
def test_the_files_have_the_hashes_of_the_formula(formula: Formula) -> None:
    hashes = formula.hashes
    package = f"{RELEASE}/embedwell-{embedwell.__version__}.tar.gz"
    assert hashes.pop(package) == hashlib.sha256(formula.source.read_bytes()).hexdigest()
    sources = {url: hash for url, hash in hashes.items() if not url.endswith("-none-any.whl")}
    assert 0 < len(sources) < len(hashes) / 2  # pip checks those of wheels, below
    for url, hash in sources.items():
        assert hashlib.sha256(httpx.get(url, timeout=120).content).hexdigest() == hash, url


@pytest.mark.full
@pytest.mark.needs("uv")
@pytest.mark.skipif(library.best_isa("float32") is None, reason="without kernels, torch computes")
def test_the_formula_installs_a_service_on_a_unix_socket(
    installed: dict[str, Any], prefix: Path, tmp_path: Path
) -> None:
    assert installed["compilers"] == ["runtime_cpu_detection", "O3"]
    command = installed["service"]["run"]
    assert command[:2] == [str(prefix / "bin" / "embedwell"), "serve"]
    with Service(tmp_path / "log", command) as server:
        vectors = server.client.post("/embed", json={"inputs": ["Hello, world"]}).json()
        assert len(vectors[0]) == 384
        assert "http://127" not in server.log
