"""Servers for the clients: with prompts, with a tag, a reranker, with a key and a short queue."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.certificates import one_certificate
from tests.conftest import Folder
from tests.models.cross_encoder import write_cross_encoder
from tests.service.local_server import local_server
from tests.service.server import HttpServer, Server

__all__ = ["one_certificate"]  # a fixture

PROMPTS = {"query": "query: ", "passage": "passage: ", "clustering": "group: "}

QUERY = "What is rust?"
DOCUMENTS = ["A fungus.", "Iron oxide.", "The name of a game."]
LONG_DOCUMENT = "a long text " * 40  # for longer than the reranker reads

LONG_TEXTS = ["a long text " * 80] * 24

KeepBusy = Callable[[], AbstractContextManager[Callable[[], None]]]


@pytest.fixture(scope="package")
def server_with_prompts(tiny_bert: Folder) -> Iterator[HttpServer]:
    """A server of a small model with prompts."""
    folder = tiny_bert({"config_sentence_transformers.json": {"prompts": PROMPTS}})
    with local_server(folder, served_name="tiny", dimensions="any") as server:
        yield server


@pytest.fixture(scope="package")
def server_with_tag(tiny_bert: Folder) -> Iterator[HttpServer]:
    """A model with a tag and a default prompt, on a server that does not truncate by default."""
    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    folder = tiny_bert({"config_sentence_transformers.json": prompts})
    with local_server(folder, served_name="own:latest", auto_truncate=False) as server:
        yield server


@pytest.fixture(scope="package")
def reranker_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small cross-encoder with one label."""
    folder = tmp_path_factory.mktemp("reranker")
    write_cross_encoder(folder)
    return folder


@pytest.fixture(scope="package")
def reranker(reranker_folder: Path) -> Iterator[HttpServer]:
    """A server of the cross-encoder, which its clients call `reranker`."""
    with local_server(reranker_folder, served_name="reranker") as server:
        yield server


@pytest.fixture(scope="package")
def relevance(reranker_folder: Path) -> list[float]:
    """The score of each of DOCUMENTS for QUERY by sentence-transformers, from 0 to 1."""
    import torch
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(str(reranker_folder), device="cpu")
    pairs = [(QUERY, document) for document in DOCUMENTS]
    scores: list[float] = model.predict(pairs, activation_fn=torch.nn.Sigmoid()).tolist()
    return scores


@pytest.fixture(scope="package")
def strict_server(
    minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server that needs a key and refuses requests that would have to wait."""
    log = tmp_path_factory.mktemp("strict") / "log"
    with Server(log, api_key="secret", max_wait=0.001, max_wait_large=0.001) as server:
        server.client.headers["authorization"] = "Bearer secret"
        yield server


@pytest.fixture
def keep_busy(strict_server: Server) -> KeepBusy:
    """A request that waits in `strict_server` during a `with` block, as its engine is stopped.

    The block gets a function that lets the engine go on earlier.
    """

    @contextlib.contextmanager
    def block() -> Iterator[Callable[[], None]]:
        engine = strict_server.engine

        def go_on() -> None:
            with contextlib.suppress(ProcessLookupError):  # the server has replaced it
                os.kill(engine, signal.SIGCONT)

        request = threading.Thread(
            target=strict_server.post, args=("/embed", {"inputs": LONG_TEXTS})
        )
        os.kill(engine, signal.SIGSTOP)
        try:
            request.start()
            ready = strict_server.client
            strict_server.wait_until(lambda: ready.get("/ready").json()["queued_tokens"] >= 1000)
            yield go_on
        finally:
            go_on()
            request.join()

    return block
