"""The `embedwell` command."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from embedwell.cli.commands import main
from embedwell_models import Embedder
from embedwell_models.hub.sources import DEFAULT
from tests.conftest import Folder
from tests.models.colbert import write_colbert
from tests.models.cross_encoder import write_cross_encoder
from tests.models.sparse_encoder import write_splade
from tests.models.tiny import unframed


def run(*arguments: str, stdin: str | None = None, status: int = 0) -> str:
    result = CliRunner().invoke(main, arguments, input=stdin)
    assert result.exit_code == status, result.output
    return result.output


def test_help_lists_the_commands() -> None:
    text = run("--help")
    for command in ("serve", "pull", "convert", "inspect", "info", "embed"):
        assert f"  {command} " in text
    assert text.partition("Commands:\n")[2].startswith("  serve ")  # not "compress"


@pytest.mark.parametrize("group", ["", "evaluate", "plot", "service", "train"])
def test_help_says_in_a_line_what_each_command_does(group: str) -> None:
    _, commands = run(*group.split(), "--help").split("Commands:\n")
    assert [line for line in commands.splitlines() if "..." in line] == []


def test_pull_prints_the_verified_folder(minilm_folder: Path) -> None:
    assert run("pull").strip() == str(minilm_folder)


def test_pull_copies_a_model_that_is_served_without_a_network(
    minilm_folder: Path, tmp_path: Path
) -> None:
    linked, to = tmp_path / "cache", tmp_path / "model"
    linked.mkdir()
    for path in minilm_folder.iterdir():
        (linked / path.name).symlink_to(path)  # as a hub's cache does
    assert run("pull", str(linked), "--to", str(to)).strip() == str(to)
    assert not any(path.is_symlink() for path in to.rglob("*"))
    assert json.loads(run("inspect", str(to), "--json"))["dim"] == 384
    message = run("pull", str(linked), "--to", str(to), status=1)
    assert f"{to} exists; name a folder that does not" in message


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


def test_info_describes_the_loaded_model(minilm_folder: Path) -> None:
    info = json.loads(run("info", "--dtype", "float32"))
    assert info["dim"] == 384 and info["dtype"] == "float32"


def test_inspect_describes_the_files_of_a_model(minilm_folder: Path) -> None:
    info = json.loads(run("inspect", "--json"))
    assert info["family"] == "bert" and info["dim"] == 384 and info["normalize"]
    assert info["tokenizer"] == {"kind": "WordPiece", "vocab_size": 30522}
    assert info["positions"] == [{"scheme": "learned", "offset": 0}]
    assert info["parameters"] == 22_713_216
    text = run("inspect", str(minilm_folder))
    for name in info:
        assert f"\n{name} " in f"\n{text}"
    assert "22,713,216" in text


def test_inspect_prints_the_fingerprint_without_the_precision(embedder: Embedder) -> None:
    files = json.loads(run("inspect", "--json"))["fingerprint"]
    assert embedder.fingerprint == f"{files}-float32"


def test_inspect_names_unsupported_settings(tiny_bert: Folder) -> None:
    family = run("inspect", str(tiny_bert({"config.json": {"model_type": "x"}})), status=1)
    assert "config.json: model_type = 'x' is not supported; docs/models.md has all" in family
    lines = [
        {"type": "sentence_transformers.models.Transformer", "path": ""},
        {"type": "sentence_transformers.models.CNN", "path": "1_CNN"},
    ]
    module = run("inspect", str(tiny_bert({"modules.json": lines})), status=1)
    assert "modules ['CNN'] are not supported; supported: (" in module
    option = run("inspect", str(tiny_bert(hidden_act="leaky_relu")), status=1)
    assert "config.json: hidden_act = 'leaky_relu' is not supported; supported: [" in option


def test_embed_writes_npy(embedder: Embedder, tmp_path: Path) -> None:
    target = tmp_path / "vectors.npy"
    run("embed", "--dtype", "float32", "-o", str(target), stdin="one\ntwo words\n\nthree")
    np.testing.assert_array_equal(
        np.load(target), embedder.embed(["one", "two words", "", "three"])
    )


def test_embed_reports_a_line_without_tokens_if_the_model_needs_one(
    tiny_bert: Folder, tmp_path: Path
) -> None:
    source, target, folder = (
        tmp_path / "texts",
        tmp_path / "vectors.npy",
        unframed(tiny_bert()),
    )
    source.write_text("work\n" * 1500 + "\nwork\n")
    output = run("embed", "--model", str(folder), str(source), "-o", str(target), status=1)
    assert output.endswith(
        "Error: line 1501: the text has no tokens, but the model needs at least one; take it out\n"
    )
    assert not target.exists()


@pytest.mark.parametrize(
    ("write", "offered"),
    [
        (write_splade, "no dense vectors of texts, but sparse vectors"),
        (lambda folder: write_colbert(folder.parent), "a vector for each token"),
        (write_cross_encoder, "no dense vectors of texts, but scores of labels"),
    ],
)
def test_embed_refuses_to_write_other_vectors_than_dense_ones_to_a_file(
    write: Callable[[Path], object], offered: str, tmp_path: Path
) -> None:
    write(tmp_path / "model")
    arguments = ("embed", "--model", str(tmp_path / "model"), "-o", str(tmp_path / "out.npy"))
    message = run(*arguments, stdin="hello\n", status=1)
    assert offered in message
    assert not (tmp_path / "out.npy").exists()


def test_embed_writes_jsonl(embedder: Embedder, tmp_path: Path) -> None:
    source, target = tmp_path / "texts", tmp_path / "vectors.jsonl"
    source.write_text("eins\nzwei\n")
    run("embed", str(source), "-o", str(target), "--prompt", "query: ", "--dtype", "float32")
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    assert [line["text"] for line in lines] == ["eins", "zwei"]
    np.testing.assert_array_equal(
        np.array([line["embedding"] for line in lines], dtype=np.float32),
        embedder.embed(["query: eins", "query: zwei"]),
    )


@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.full
def test_embed_splits_lines_only_at_line_feeds(
    embedder: Embedder, tmp_path: Path, piped: bool
) -> None:
    source, target = tmp_path / "texts", tmp_path / "vectors.jsonl"
    unusual_line = "".join(["a", *"\f\v\x1c\x1d\x1e\x85\u2028\u2029\r", "b"])
    text = f"{unusual_line}\nof Windows\r\n\nlast"
    source.write_bytes(text.encode())
    run(
        "embed",
        "-" if piped else str(source),
        "-o",
        str(target),
        stdin=text if piped else None,
    )
    lines = target.read_text(encoding="utf-8").split("\n")[:-1]
    assert [json.loads(line)["text"] for line in lines] == [unusual_line, "of Windows", "", "last"]


def test_embed_reports_texts_that_are_not_utf8(tmp_path: Path) -> None:
    source, target = tmp_path / "texts", tmp_path / "vectors.npy"
    source.write_bytes(b"one\ncaf\xe9")
    output = run("embed", str(source), "-o", str(target), status=1)
    assert f"Error: {source} is not UTF-8 (line 2); convert it first" in output


def test_embed_checks_the_output_before_it_loads_the_model(
    tmp_path: Path,
) -> None:
    target = tmp_path / "none" / "vectors.npy"
    output = run("embed", "--model", "no-such-model", "-o", str(target), stdin="x", status=1)
    assert output == f"Error: {target} cannot be written: No such file or directory\n"


def test_a_failed_embed_leaves_the_output_unchanged(tmp_path: Path) -> None:
    target = tmp_path / "vectors.npy"
    target.write_text("older")
    run("embed", "--model", "no-such-model", "-o", str(target), stdin="x", status=1)
    assert target.read_text() == "older" and list(tmp_path.iterdir()) == [target]


@pytest.mark.full
def test_an_interrupted_embed_leaves_no_files(tiny_bert: Folder, tmp_path: Path) -> None:
    target, folder = tmp_path / "vectors.npy", str(tiny_bert())
    command = [sys.executable, "-m", "embedwell", "embed", "--model", folder, "-o", str(target)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"a text\n" * 1_000_000)
        process.stdin.close()
        while not list(tmp_path.iterdir()):
            time.sleep(0.01)
        process.terminate()
        assert process.wait(120) == 128 + signal.SIGTERM
    assert not list(tmp_path.iterdir())


@pytest.mark.full
def test_embed_replaces_the_target_of_a_link_and_keeps_its_mode(
    tiny_bert: Folder, tmp_path: Path
) -> None:
    target, link = tmp_path / "old.npy", tmp_path / "vectors.npy"
    target.write_text("older")
    target.chmod(0o640)
    link.symlink_to(target)
    run("embed", "--model", str(tiny_bert()), "-o", str(link), stdin="x")
    assert link.is_symlink() and np.load(target).shape == (1, 48)
    assert target.stat().st_mode & 0o777 == 0o640


@pytest.mark.full
def test_embed_reports_a_full_disk_in_one_line(tiny_bert: Folder, tmp_path: Path) -> None:
    target, folder = tmp_path / "vectors.npy", str(tiny_bert())
    target.symlink_to("/dev/full")
    output = run("embed", "--model", folder, "-o", str(target), stdin="x", status=1)
    assert f"Error: {target} cannot be written: No space left on device\n" in output


@pytest.mark.full
def test_embed_writes_to_a_named_pipe(tiny_bert: Folder, tmp_path: Path) -> None:
    pipe, folder = tmp_path / "pipe.jsonl", str(tiny_bert())
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        content = pool.submit(pipe.read_bytes)
        run("embed", "--model", folder, "-o", str(pipe), stdin="a b\nc")
    assert pipe.is_fifo() and len(content.result().splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("server", "--port", "0"), "No such command 'server'. Did you mean 'serve'?"),
        (("run", "acme/encoder"), "No such command 'run'. Did you mean 'serve'?"),
        (("ls",), "No such command 'ls'. Did you mean 'models'?"),
        (
            ("acme/encoder",),
            "No such command 'acme/encoder'. To serve a model: embedwell serve acme/encoder",
        ),
        (("serve", "--threads", "1.5"), "'1.5': Input should be a valid integer\n"),
        (("embed", "-o", "vectors.txt"), ".npy or .jsonl"),
        (("inspect", "no-such-model"), "no model 'no-such-model'"),
        (("info", "--model", "no-such-model"), "no model 'no-such-model'"),
        (("info", "no-such-model"), "no model 'no-such-model'"),
        (("pull", "no-such-model"), "no model 'no-such-model'"),
        (("pull", "--to", "/dev/null/x"), "/dev/null/x cannot be written: [Errno 20] Not a dir"),
        (("pull", "--revision", "v1"), "revision 'v1': only models on a hub have revisions"),
        (("pull", "a", "--model", "b"), "give a or --model b, not both"),
        (("serve", "no-such-model", "--port", "0"), "no model 'no-such-model'"),
        (("info", "--dtype", "float16", "--device", "cpu"), "float16 is not supported"),
    ],
)
def test_an_error_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(main, arguments, input="x")
    assert result.exit_code != 0 and message in result.output


def test_options_before_a_command_are_told_to_follow_it() -> None:
    text = run("--port", "9000", status=2)
    assert "No such option '--port'. Options follow a command: embedwell serve --port" in text
