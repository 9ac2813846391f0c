"""The programs in Go, Java and Rust of examples/clients, against a server."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from embedwell_models import Embedder
from tests.programs import program
from tests.service.local_server import local_server
from tests.service.server import HttpServer

EXAMPLES = Path(__file__).parents[2] / "examples" / "clients"
TEXTS = ['A "cat" \\ sleeps.\n', "Ein Kätzchen döst. 🐈", "The car is red."]
KEY = "sesame"

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def server(minilm_folder: Path) -> Iterator[HttpServer]:
    with local_server(minilm_folder, api_key=KEY, dtype="float32") as server:
        yield server


def go(_: Path) -> list[str]:
    return [program("go", "golang-go"), "run", "."]


def java(_: Path) -> list[str]:
    compiler = program("javac", "default-jdk-headless")
    return [str(Path(compiler).with_name("java")), "Embed.java"]


def rust(home: Path) -> list[str]:
    """Compile the program next to the test's other files; the folder of the program stays clean."""
    compiled = home / "embed"
    command = [program("rustc", "rustc"), "--edition", "2021", "-o", str(compiled), "embed.rs"]
    subprocess.run(command, cwd=EXAMPLES / "rust", check=True)
    return [str(compiled)]


COMMANDS = {"go": go, "java": java, "rust": rust}


def run(name: str, home: Path, *arguments: str, key: str) -> subprocess.CompletedProcess[str]:
    """Run a program in its folder, without a network."""
    options = {"HOME": str(home), "GOPROXY": "off", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
    return subprocess.run(
        [*COMMANDS[name](home), *arguments],
        cwd=EXAMPLES / name,
        env={**os.environ, **options, "API_KEY": key, "LC_ALL": "C.UTF-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_a_program_gets_the_vectors_of_the_embedder(
    server: HttpServer, embedder: Embedder, tmp_path: Path, name: str
) -> None:
    process = run(name, tmp_path, server.url, *TEXTS, key=KEY)
    assert process.returncode == 0, process.stderr
    printed = re.fullmatch(
        r"3 vectors of 384 dimensions; cosine of the first two: (\S+)\n", process.stdout
    )
    assert printed, process.stdout
    first, second, _ = embedder.embed(TEXTS).astype(np.float64)
    assert float(printed[1]) == pytest.approx(first @ second, abs=2e-6)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_program_ends_with_the_message_of_the_server(
    server: HttpServer, tmp_path: Path, name: str
) -> None:
    process = run(name, tmp_path, server.url, *TEXTS, key="wrong")
    assert process.returncode == 1
    assert "status 401" in process.stderr and "invalid_api_key" in process.stderr


def test_the_page_has_a_command_for_each_program() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[`(\w+)/", page, re.MULTILINE) == [*COMMANDS]
