"""The `embedding-service` command."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from models import Embedder
from models.sources import DEFAULT
from service.cli import main


def run(*arguments: str, stdin: str | None = None, status: int = 0) -> str:
    result = CliRunner().invoke(main, arguments, input=stdin)
    assert result.exit_code == status, result.output
    return result.output


def test_help_lists_the_commands() -> None:
    text = run("--help")
    for command in ("serve", "pull", "info", "embed"):
        assert f"  {command} " in text


def test_pull_prints_the_verified_folder(minilm_folder: Path) -> None:
    assert run("pull").strip() == str(minilm_folder)


def test_pull_refuses_a_changed_file(minilm_folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / DEFAULT
    copy.mkdir()
    for path in minilm_folder.rglob("*"):
        if path.is_file():
            target = copy / path.relative_to(minilm_folder)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(path.read_bytes())
    run("pull", "--cache", str(tmp_path))
    (copy / "vocab.txt").write_text("changed")
    assert "vocab.txt has SHA-256" in run("pull", "--cache", str(tmp_path), status=1)


def test_info_tells_what_the_model_is(minilm_folder: Path) -> None:
    found = json.loads(run("info", "--dtype", "float32"))
    assert found["dim"] == 384 and found["dtype"] == "float32"


def test_embed_writes_an_array(embedder: Embedder, tmp_path: Path) -> None:
    target = tmp_path / "vectors.npy"
    run("embed", "--dtype", "float32", "-o", str(target), stdin="one\ntwo words\n\nthree")
    np.testing.assert_array_equal(
        np.load(target), embedder.embed(["one", "two words", "", "three"])
    )


def test_embed_writes_lines(embedder: Embedder, tmp_path: Path) -> None:
    source, target = tmp_path / "texts", tmp_path / "vectors.jsonl"
    source.write_text("eins\nzwei\n")
    run("embed", str(source), "-o", str(target), "--prompt", "query: ", "--dtype", "float32")
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    assert [line["text"] for line in lines] == ["eins", "zwei"]
    np.testing.assert_array_equal(
        np.array([line["embedding"] for line in lines], dtype=np.float32),
        embedder.embed(["query: eins", "query: zwei"]),
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("embed", "-o", "vectors.txt"), ".npy or .jsonl"),
        (("info", "--model", "no-such-model"), "no model 'no-such-model'"),
        (("info", "--dtype", "float16", "--device", "cpu"), "float16 is not supported"),
    ],
)
def test_a_mistake_is_told_in_a_line(arguments: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(main, arguments, input="x")
    assert result.exit_code != 0 and message in result.output
