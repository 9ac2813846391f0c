"""The greeting of a server that is ready."""

from pathlib import Path
from typing import Any

import pytest

from embedwell.inherited import InheritedModel, InheritedServer
from embedwell.launch.announcements import greeting
from embedwell.settings.settings import Settings

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


def greet(engine: dict[str, Any] | None) -> str:
    settings = Settings(served_name="small")
    model = InheritedModel(settings, Path("/model"), 0, rows=2, counters_fd=10, connect_fd=11)
    context = InheritedServer(settings, [model], 8080, [[6]])
    return greeting(context, {} if engine is None else {0: engine})
