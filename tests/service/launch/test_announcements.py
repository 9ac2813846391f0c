"""The greeting of a server that is ready."""

import re
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from embedwell.inherited import InheritedModel, InheritedServer
from embedwell.launch.announcements import Announcements, greeting
from embedwell.settings.settings import Settings
from tests.conftest import COMPILED, Folder
from tests.service.server import Server

ENGINE = {
    **{"labels": None, "dim": 16, "vocab_size": 99, "max_length": 64, "device": "cpu"},
    **{"dtype": "float32", "threads": 2, "kernels": "avx2", "torch": None},
}


@pytest.mark.parametrize(
    ("outputs", "description", "route"),
    [
        (["dense"], "16 dimensions, 64 tokens", "/embed "),
        (["sparse"], "sparse vectors of 99 entries, 64 tokens", "/embed_sparse "),
        (["dense", "multi"], "16 dimensions and vectors of tokens, 64 tokens", "/embed "),
        (["multi"], "16 dimensions for each token, 64 tokens", "/embed "),
        (["dense", "sparse"], "16 dimensions and sparse vectors of 99 entries, 64", "/embed "),
        (["decision"], "decisions, 64 tokens", "/v1/decisions "),
        (["labels"], "candidate labels, 64 tokens", "/zero-shot-classification "),
        (["of another package"], ", 64 tokens", "/embed "),
        (["decision", "labels"], "decisions and candidate labels, 64", "/v1/decisions "),
    ],
)
def test_the_outputs_of_a_model_and_an_example_request_are_named(
    outputs: list[str], description: str, route: str
) -> None:
    text = greet({**ENGINE, "outputs": outputs})
    assert f"model small: {description}" in text and f"8080{route}" in text


@pytest.mark.parametrize(
    ("labels", "description", "route"),
    [(["a"], "reranker, 64", "/rerank "), (["a", "b", "c"], "3 labels, 64", "/predict ")],
)
def test_the_labels_of_a_model_and_an_example_request_are_named(
    labels: list[str], description: str, route: str
) -> None:
    text = greet({**ENGINE, "labels": labels, "outputs": []})
    assert f"model small: {description}" in text and f"8080{route}" in text


@pytest.mark.parametrize(
    ("kernels", "reason", "text"),
    [
        ("avx2", None, "avx2 kernels"),
        ("avx2", "the layers of this bert model", "avx2 kernels and PyTorch for the layers of"),
        (None, "the device cuda:0", "PyTorch for the device cuda:0"),
        (None, None, "numpy"),
    ],
)
def test_what_computes_a_model_is_named(kernels: str | None, reason: str | None, text: str) -> None:
    engine = {**ENGINE, "outputs": ["dense"], "kernels": kernels, "torch": reason}
    assert f"in float32, 2 threads, {text}" in greet(engine)


def test_a_model_that_is_not_loaded_says_so() -> None:
    assert "model small: loaded on demand" in greet(None)


@pytest.mark.parametrize(
    ("host", "key"),
    [
        ("0.0.0.0", None),
        pytest.param(
            "::",
            "secret",
            marks=pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="there is no IPv6"),
        ),
    ],
)
def test_a_server_for_other_machines_names_an_address_that_works_and_warns_without_a_key(
    host: str, key: str | None, tiny_bert: Folder, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {} if key is None else {"api_key": key}
    with Server(tmp_path / "log", host=host, model=tiny_bert(**COMPILED), **settings) as server:
        log = server.log
        assert f"listens on {server.url} and every other address of this machine\n" in log
        [example] = re.findall(r"^try: (.*)", log, re.MULTILINE)
        command = ["bash", "-c", example.replace("KEY", str(key))]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[[")
    warning = "warning: there is no key, and whoever can connect to this port can send requests"
    assert server.log.count(warning) == (key is None)


def test_a_server_for_this_machine_alone_needs_no_key(server: Server) -> None:
    assert "warning" not in server.log


def test_each_address_is_named_with_an_example_request() -> None:
    unix = {"unix_socket": "/tmp/a b"}
    example = "curl -s --unix-socket '/tmp/a b' http://localhost/embed -d"
    alone, both = greet(None, **unix), greet(None, **unix, port=8080)
    assert "listens on the Unix socket /tmp/a b\n" in alone and f"try: {example}" in alone
    assert "listens on http://127.0.0.1:8080 and the Unix socket /tmp/a b\n" in both
    assert f"or: {example}" in both and "http://127" not in alone


def test_a_server_that_stops_while_it_loads_greets_nobody(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = {"model": 0, "restarts": 0, "engine": {**ENGINE, "outputs": ["dense"]}}
    stopping, serving = Announcements(context()), Announcements(context())
    stopping.note_stopping()
    stopping.greet_if_ready()
    stopping.note_engine_ready(report)
    assert not stopping.greeted and not capsys.readouterr().err
    serving.note_engine_ready(report)
    assert serving.greeted and "listens on" in capsys.readouterr().err


def context(**options: Any) -> InheritedServer:
    settings = Settings(served_name="small", **options)
    model = InheritedModel(settings, Path("/model"), 0, rows=2, counters_fd=10, connect_fd=11)
    return InheritedServer(settings, [model], 8080, [[6]])


def greet(engine: dict[str, Any] | None, **options: Any) -> str:
    return greeting(context(**options), {} if engine is None else {0: engine})
