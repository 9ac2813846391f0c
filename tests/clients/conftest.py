"""Servers that clients meet: one with prompts, and one with a key and a short queue."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.conftest import Folder
from tests.service.local_server import local_server
from tests.service.server import HttpServer, Server

PROMPTS = {"query": "query: ", "passage": "passage: ", "clustering": "group: "}

MANY = ["a long text " * 80] * 24  # of which a second request waits for the first

Busy = Callable[[], AbstractContextManager[None]]


@pytest.fixture(scope="package")
def prompted(tiny_bert: Folder) -> Iterator[HttpServer]:
    """A small model that has prompts."""
    folder = tiny_bert({"config_sentence_transformers.json": {"prompts": PROMPTS}})
    with local_server(folder, served_name="tiny", dimensions="any") as running:
        yield running


@pytest.fixture(scope="package")
def tagged(tiny_bert: Folder) -> Iterator[HttpServer]:
    """A model with a tag and a default prompt, on a server that cuts nothing unasked."""
    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    folder = tiny_bert({"config_sentence_transformers.json": prompts})
    with local_server(folder, served_name="own:latest", auto_truncate=False) as running:
        yield running


@pytest.fixture(scope="package")
def guarded(minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that wants a key and lets nobody wait."""
    log = tmp_path_factory.mktemp("guarded") / "log"
    with Server(log, api_key="secret", max_wait=0.001) as running:
        running.client.headers["authorization"] = "Bearer secret"
        yield running


@pytest.fixture
def busy(guarded: HttpServer) -> Busy:
    """Keeps the guarded server busy for the time of a block."""

    @contextlib.contextmanager
    def keep() -> Iterator[None]:
        work = threading.Thread(target=guarded.post, args=("/embed", {"inputs": MANY}))
        work.start()
        deadline = time.monotonic() + 20
        while guarded.client.get("/ready").json()["queued_tokens"] < 1000:
            assert time.monotonic() < deadline
        yield
        work.join()

    return keep
