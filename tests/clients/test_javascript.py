"""JavaScript clients with a real server; each has a script in tests/clients/js."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from models import Embedder
from models.hub.sources import DEFAULT
from tests.programs import program
from tests.service.server import Server

SCRIPTS = Path(__file__).parent / "js"
TEXTS = ["A first text.", "Ein zweiter Text."]
CLIENTS = sorted(path.stem for path in SCRIPTS.glob("*.js") if path.stem != "run")


@pytest.fixture(scope="module")
def node() -> str:
    """The path of node; skips the tests if it or the clients are missing."""
    path = program("node", "nodejs npm")
    if not (SCRIPTS / "node_modules").is_dir():
        pytest.skip("needs npm packages: make js-clients")
    return path


@pytest.fixture(scope="module")
def server_with_key(
    minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory, node: str
) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("keyed") / "log"
    with Server(log, api_key="secret") as server:
        yield server


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_gets_vectors_and_error_messages(
    node: str, server_with_key: Server, embedder: Embedder, client: str
) -> None:
    process = subprocess.run(
        [node, f"{client}.js", server_with_key.url, "secret", DEFAULT, *TEXTS],
        cwd=SCRIPTS,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert process.returncode == 0, process.stderr
    output = json.loads(process.stdout)
    vectors = np.array(output["vectors"], dtype=np.float32)
    np.testing.assert_array_equal(vectors, embedder.embed(TEXTS))
    assert "Incorrect API key provided" in output["wrongKey"]
    if client != "huggingface":  # which sends no model name to a TEI server
        assert "no model 'another'; this server has" in output["wrongModel"]


def test_each_client_has_its_script() -> None:
    assert CLIENTS == [
        "cohere",
        "huggingface",
        "langchain-cohere",
        "langchain-ollama",
        "langchain-openai",
        "ollama",
        "openai",
        "vercel",
    ]
