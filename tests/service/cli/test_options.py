"""Defaults that the help shows, and packages that a command needs but are not installed."""

import re
import sys
import tomllib
from pathlib import Path

import click
import pytest

from embedwell.cli.options import (
    default_text,
    install_command,
    require,
    require_torch,
    require_tracing,
)


def test_the_message_names_the_extra_that_pip_installs(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = "opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http"
    for module in ("sklearn", "umap", *traces):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(click.ClickException) as raised:
        require("plot", "numpy", "sklearn", "umap")
    message = "sklearn, umap are not installed: " + install_command("plot")
    assert raised.value.message == message
    with pytest.raises(
        click.ClickException,
        match=r"are not installed: .* -m pip install '\w+\[otel\]'",
    ):
        require_tracing()


@pytest.mark.parametrize(
    ("extra", "modules"),
    [
        ("bulk", ["pyarrow", "fsspec"]),
        ("evaluate", ["sentence-transformers", "scipy", "scikit-learn"]),
        ("mteb", ["mteb"]),
        ("otel", ["opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"]),
        ("plot", ["matplotlib", "scikit-learn", "textalloc", "umap-learn"]),
        ("ray", ["ray"]),
        ("train", ["accelerate", "datasets", "gensim", "model2vec", "sentence-transformers"]),
    ],
)
def test_the_extras_that_messages_name_have_these_packages(extra: str, modules: list[str]) -> None:
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    needed = tomllib.loads(text)["project"]["optional-dependencies"][extra]
    names = {re.split(r"[^\w-]", line)[0] for line in needed}
    assert {*modules} <= names


def test_a_module_of_a_package_that_is_not_installed_is_missing() -> None:
    with pytest.raises(click.ClickException, match=r"no_such_package\.trace is not installed"):
        require("plot", "no_such_package.trace")


@pytest.mark.needs("torch")
def test_torch_is_required_before_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    require_torch()
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(click.ClickException, match="pip install torch"):
        require_torch()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("playground", "true"),
        ("tracing", "false"),
        ("max_wait", "2"),
        ("threads", "0"),
        ("dtype", "auto"),
        ("served_name", ""),
        ("revision", ""),
    ],
)
def test_a_default_is_shown_as_users_write_it(name: str, text: str) -> None:
    assert default_text(name) == text
