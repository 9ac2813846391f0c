"""The clients of docs/local-server.md with a real server on a Unix socket."""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import COMPILED, Folder
from tests.programs import program
from tests.service.server import UnixServer

PAGE = Path(__file__).parents[2] / "docs" / "local-server.md"
_, TEXT = PAGE.read_text(encoding="utf-8").split("## A server on a Unix socket\n")
PATH = "/run/user/1000/embedwell.sock"


@pytest.fixture(scope="module")
def server(tiny_bert: Folder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UnixServer]:
    log = tmp_path_factory.mktemp("clients") / "log"
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "model": tiny_bert(**COMPILED),
            "served_name": "all-MiniLM-L6-v2",
            "idle_exit": "15m",
        }
        with UnixServer(log, Path(folder) / "socket", **settings) as server:
            yield server


def blocks(language: str, server: UnixServer) -> list[str]:
    """The page's blocks of a language, for the server's socket."""
    found = re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    assert all(PATH in block for block in found)
    return [block.replace(PATH, str(server.socket)) for block in found]


def output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_clients_for_python_get_vectors(server: UnixServer) -> None:
    printed = r"\g<0>\nprint(vectors.model_dump_json())"
    code = re.sub("^vectors = .*", printed, "".join(blocks("python", server)), flags=re.MULTILINE)
    lines = output(sys.executable, "-c", code).splitlines()
    openai, cohere, ollama = map(json.loads, lines)
    expected = vector(server)
    assert openai["data"][0]["embedding"] == pytest.approx(expected[0], abs=1e-6)
    for vectors in (cohere["embeddings"]["float"], ollama["embeddings"]):
        assert vectors[0] == pytest.approx(expected[0], abs=1e-6)


def test_curl_gets_vectors(server: UnixServer) -> None:
    start, example = blocks("sh", server)
    assert start.startswith("embedwell serve --unix-socket")
    assert json.loads(output("bash", "-c", example)) == vector(server)


def test_node_gets_vectors(server: UnixServer) -> None:
    [script] = blocks("js", server)
    printed = output(program("node", "nodejs"), "--eval", script)
    assert json.loads(printed) == vector(server)


def vector(server: UnixServer) -> list[list[float]]:
    vectors: list[list[float]] = server.post("/embed", {"inputs": "Hello"}).json()
    return vectors
