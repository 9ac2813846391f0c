"""JavaScript clients with a real server; each has a script in tests/clients/js."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedwell_models import Embedder
from embedwell_models.hub.sources import DEFAULT, resolve
from tests.clients.conftest import DOCUMENTS, QUERY
from tests.models.cross_encoder import write_cross_encoder
from tests.models.laya_model import write_laya
from tests.programs import program
from tests.service.local_server import local_server
from tests.service.server import HttpServer, Server

SCRIPTS = Path(__file__).parent / "js"
TEXTS = ["A first text.", "Ein zweiter Text."]
CLIENTS = sorted(path.stem for path in SCRIPTS.glob("*.js") if path.stem != "run")
RERANKING = sorted(path.stem for path in SCRIPTS.glob("rerank/*.js") if path.stem != "run")
DECIDING = sorted(path.stem for path in SCRIPTS.glob("decide/*.js") if path.stem != "run")


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


@pytest.fixture(scope="module")
def reranker_with_key(reranker_folder: Path, node: str) -> Iterator[HttpServer]:
    with local_server(reranker_folder, served_name="reranker", api_key="secret") as server:
        yield server


@pytest.fixture(scope="module")
def decider_with_key(tmp_path_factory: pytest.TempPathFactory, node: str) -> Iterator[HttpServer]:
    folder = tmp_path_factory.mktemp("decide")
    linked = resolve(str(write_laya(folder / "laya")), cache=folder / "cache")
    with local_server(linked, served_name="laya", api_key="secret") as server:
        server.client.headers["authorization"] = "Bearer secret"
        yield server


def run(node: str, script: str, arguments: Sequence[str]) -> Any:
    """The JSON that a script prints."""
    process = subprocess.run(
        [node, script, *arguments],
        cwd=SCRIPTS,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_gets_vectors_and_error_messages(
    node: str, server_with_key: Server, embedder: Embedder, client: str
) -> None:
    output = run(node, f"{client}.js", [server_with_key.url, "secret", DEFAULT, *TEXTS])
    vectors = np.array(output["vectors"], dtype=np.float32)
    np.testing.assert_array_equal(vectors, embedder.embed(TEXTS))
    assert "Incorrect API key provided" in output["wrongKey"]
    if client != "huggingface":  # which sends no model name to a TEI server
        unknown = "model 'another' not found" if "ollama" in client else "no model 'another'"
        assert f"{unknown}; this server has" in output["wrongModel"]


@pytest.mark.parametrize("client", RERANKING)
def test_a_client_gets_a_ranking_and_error_messages(
    node: str, reranker_with_key: HttpServer, relevance: list[float], client: str
) -> None:
    arguments = [reranker_with_key.url, "secret", "reranker", QUERY, *DOCUMENTS]
    output = run(node, f"rerank/{client}.js", arguments)
    best = sorted(zip(DOCUMENTS, relevance, strict=True), key=lambda pair: -pair[1])[:2]
    assert output["ranking"] == [[text, pytest.approx(score, abs=1e-4)] for text, score in best]
    assert "Incorrect API key provided" in output["wrongKey"]
    assert "no model 'another'; this server has" in output["wrongModel"]


@pytest.mark.parametrize("client", DECIDING)
def test_a_client_gets_decisions_and_error_messages(
    node: str, decider_with_key: HttpServer, client: str
) -> None:
    arguments = [decider_with_key.url, "secret", "laya", TEXTS[0]]
    output = run(node, f"decide/{client}.js", arguments)
    questions = {
        "which": {"type": "choice", "instructions": "which", "criteria": {"a": None, "b": None}},
        "so": {"type": "noul", "instructions": "so"},
    }
    # The AI SDK sends a text as a conversation of one message.
    message = [{"role": "user", "content": TEXTS[0]}]
    state = message if client == "vercel" else TEXTS[0]
    body = {"state": state, "questions": questions}
    expected = decider_with_key.post("/v1/systemone", body).json()["answers"]
    answers = [expected["which"]["choice"], pytest.approx(expected["so"]["noul"])]
    assert output["answers"] == answers
    assert "Incorrect API key provided" in output["wrongKey"]
    assert "no model 'another'; this server has" in output["wrongModel"]


def test_hugging_face_gets_all_labels(node: str, tmp_path: Path) -> None:
    write_cross_encoder(tmp_path, labels=3)
    with local_server(tmp_path) as server:
        labels = run(node, "classify/huggingface.js", [server.url, TEXTS[0]])
        assert labels == server.post("/predict", {"inputs": TEXTS[0]}).json()
    assert len(labels) == 3


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
    assert RERANKING == ["cohere", "cohere-v1", "langchain-cohere"]
    assert DECIDING == ["openai", "typesafe", "vercel"]
