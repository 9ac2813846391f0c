"""`embedwell embed` into a file and into a folder."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from embedwell.cli.commands import main
from embedwell.cli.options import install_command
from embedwell_models.embedder import Embedder
from tests.conftest import COMPILED, Folder
from tests.models.sparse_encoder import write_splade
from tests.service.bulk.jobs import contents, prose, vectors_of, write_parquet
from tests.service.local_server import local_server


def run(*arguments: str, stdin: str | None = None, status: int = 0) -> str:
    result = CliRunner().invoke(main, ["embed", *arguments], input=stdin)
    assert result.exit_code == status, result.output
    return result.output


@pytest.fixture(scope="module")
def model(tiny_bert: Folder) -> Path:
    return tiny_bert()


@pytest.fixture(scope="module")
def loaded(model: Path) -> Embedder:
    return Embedder.load(model, device="cpu", dtype="float32")


def test_a_table_is_embedded_into_a_folder(model: Path, loaded: Embedder, tmp_path: Path) -> None:
    path, out = write_parquet(tmp_path / "in.parquet", 40), tmp_path / "out"
    options = ("--model", str(model), "--dtype", "float32", "--id", "id", "--keep", "tags")
    output = run(str(path), "-o", str(out), *options, "--part-rows", "30", "--prompt", "a ")
    assert f"40 texts embedded into {out}, 0 rows left out\n" in output
    assert "texts/s, 100.0%" in output
    table = pq.read_table(out)
    assert table.column_names == ["id", "tags", "embedding"]
    expected = loaded.embed(prose(40), prompt="a ")
    np.testing.assert_array_equal(vectors_of(table), expected)


def test_the_last_line_counts_one_row_and_names_the_errors(model: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n{"text": null}\n')
    source, out = str(tmp_path / "in.jsonl"), f"{tmp_path}/out/"
    output = run(source, "-o", out, "--model", str(model), "--dtype", "float32")
    last = f"1 text embedded into {out}, 1 row left out: see {out}_errors-*.jsonl"
    assert output.splitlines()[-1] == last
    file = tmp_path / "out.npy"
    output = run("-o", str(file), "--model", str(model), "--dtype", "float32", stdin="a\n")
    assert output.splitlines()[-1] == f"1 text embedded into {file}"


def test_a_run_of_several_machines_is_resumed(model: Path, tmp_path: Path) -> None:
    path, out = write_parquet(tmp_path / "in.parquet", 30), tmp_path / "out"
    common = (str(path), "-o", f"{out}/", "--model", str(model), "--part-rows", "10")
    shard = ("--shard", "2/2", "--format", "npy", "--dtype", "float32")
    run(*common, *shard)
    names = ["_manifest-2-of-2.json", "part-000001.npy", "part-000001.parquet"]
    assert sorted(path.name for path in out.iterdir()) == names
    assert "continue that run with --resume" in run(*common, *shard, status=1)
    run(*common, *shard, "--resume")


def test_a_resumed_run_keeps_its_precision(model: Path, tmp_path: Path) -> None:
    path, out = write_parquet(tmp_path / "in.parquet", 30), tmp_path / "out"
    common = (str(path), "-o", str(out), "--model", str(model), "--resume")
    run(*common, "--dtype", "float32")
    (out / "part-000000.parquet").unlink()
    run(*common)  # in which auto is not float32
    assert json.loads((out / "_manifest.json").read_text())["run"]["precision"] == "float32"


@pytest.mark.parametrize("suffix", [".npy", ".jsonl"])
def test_several_windows_of_lines_are_one_file(
    suffix: str, model: Path, loaded: Embedder, tmp_path: Path
) -> None:
    texts = [str(number % 500) for number in range(20_000)]  # more than one window
    target = tmp_path / f"out{suffix}"
    options = ("--model", str(model), "--dtype", "float32")
    run("-o", str(target), *options, stdin="\n".join(texts) + "\n")
    rows = loaded.embed(texts[:500])
    if suffix == ".npy":
        vectors = np.load(target)
        np.testing.assert_array_equal(vectors, np.concatenate([rows] * 40))
        np.save(tmp_path / "saved.npy", vectors)
        assert target.read_bytes() == (tmp_path / "saved.npy").read_bytes()
    else:
        assert len(target.read_text().splitlines()) == 20_000


def test_a_line_of_json_has_no_other_line_end(model: Path, tmp_path: Path) -> None:
    target, texts = tmp_path / "out.jsonl", ["a\x85b\u2028c\u2029d", "e"]
    run("-o", str(target), "--model", str(model), stdin="\n".join(texts))
    lines = target.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["text"] for line in lines] == texts


def test_no_lines_are_an_array_without_rows(model: Path, tmp_path: Path) -> None:
    run("-o", str(tmp_path / "out.npy"), "--model", str(model), stdin="")
    assert np.load(tmp_path / "out.npy").shape == (0, 48)


def test_running_servers_embed_into_a_file_and_into_a_folder(
    model: Path, loaded: Embedder, tmp_path: Path
) -> None:
    path = write_parquet(tmp_path / "in.parquet", 40)
    with local_server(model) as server:
        run(str(path), "-o", str(tmp_path / "out"), "--server", server.url, "--id", "id")
        file = ("-o", str(tmp_path / "out.npy"), "--server", server.url)
        run(*file, stdin="one\ntwo\n")
    vectors = vectors_of(pq.read_table(tmp_path / "out"))
    np.testing.assert_array_equal(vectors, loaded.embed(prose(40)))
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), loaded.embed(["one", "two"]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["-o", "out.txt"],
            "the name must end in .npy or .jsonl, or in / for a folder of Parquet files",
        ),
        (["-o", "out"], "needs files as SOURCE, not standard input; name"),
        (["a", "b", "-o", "out.npy"], "out.npy is a file, which has one SOURCE"),
        (["-o", "out.npy", "--column", "text"], "--column needs a folder, but out.npy is a file"),
        (["-o", "out.npy", "--id", "key"], "--id needs a folder"),
        (["a", "-o", "out", "--shard", "3/2"], "3/2: write I/N, such as 1/4"),
        (["a", "-o", "out", "--shard", "1/2"], "--shard needs --dtype"),
        (["a", "-o", "out", "--server", "localhost"], "the address must begin with http://"),
        (["no-such-file", "-o", "out.npy"], "no-such-file: No such file or directory"),
    ],
)
def test_options_that_do_not_fit_are_refused(arguments: list[str], message: str) -> None:
    assert message in run(*arguments, status=2)


def test_an_error_of_a_run_is_one_line_before_the_model_is_loaded(tmp_path: Path) -> None:
    arguments = (f"{tmp_path}/none", "-o", str(tmp_path / "out"), "--model", "no-such-model")
    assert run(*arguments, status=1) == f"Error: {tmp_path}/none: no such file\n"


def test_a_model_without_dense_vectors_is_refused(tmp_path: Path) -> None:
    write_splade(tmp_path / "model")
    path = write_parquet(tmp_path / "in.parquet", 4)
    arguments = (str(path), "-o", str(tmp_path / "out"), "--model", str(tmp_path / "model"))
    assert "no dense vectors of texts, but sparse vectors" in run(*arguments, status=1)


def test_a_file_is_embedded_without_the_extra_and_a_folder_names_it(
    model: Path, tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_text("a\n")
    program = (
        "import sys\n"
        "sys.modules |= dict.fromkeys(['pyarrow', 'fsspec'])\n"  # as if not installed
        "from embedwell.cli.commands import main\n"
        "main(['embed', *sys.argv[1:]])\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "in.txt"), "--model", str(model), "-o"]
    subprocess.run([*command, str(tmp_path / "out.npy")], check=True)
    folder = subprocess.run(
        [*command, str(tmp_path / "out")], capture_output=True, text=True, check=False
    )
    assert folder.returncode == 1
    assert "pyarrow, fsspec are not installed: " + install_command("bulk") in folder.stderr


_KINDS = [".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".pq", ".arrow", ".feather", ".CSV"]


@pytest.mark.parametrize("target", ["out.npy", "out.jsonl"])
@pytest.mark.parametrize("name", [*(f"in{kind}" for kind in _KINDS), "in.txt.gz", "in.csv.zst"])
def test_into_a_file_only_lines_of_text_are_embedded(
    tmp_path: Path, name: str, target: str
) -> None:
    (tmp_path / name).write_text("text,label\na cat,1\n")
    message = run(str(tmp_path / name), "-o", str(tmp_path / target), status=2)
    problem = "is compressed" if name.endswith(("gz", "zst")) else "has columns"
    assert f"{name} {problem}" in " ".join(message.split()) and f"{tmp_path}/out/" in message
    assert not (tmp_path / target).exists()


COUNT, PART_ROWS = 3000, 100


def command(model: Path, source: Path, output: Path) -> list[str]:
    options = ["--model", str(model), "--dtype", "float32", "--id", "id", "--resume"]
    options += ["--part-rows", str(PART_ROWS)]
    return [sys.executable, "-m", "embedwell", "embed", str(source), "-o", str(output), *options]


@pytest.fixture(scope="module")
def slow_run(
    tiny_bert: Folder, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Path], list[str]]:
    """Function that returns a command, for an output, so slow that it is stopped in time."""
    model = tiny_bert(**COMPILED, num_hidden_layers=24)
    source = write_parquet(tmp_path_factory.mktemp("slow") / "in.parquet", COUNT)
    return lambda output: command(model, source, output)


@pytest.fixture(scope="module")
def undisturbed(
    slow_run: Callable[[Path], list[str]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, bytes]:
    """The output of a run that is not stopped."""
    output = tmp_path_factory.mktemp("undisturbed") / "out"
    subprocess.run(slow_run(output), check=True)
    return contents(output)


@pytest.mark.full
@pytest.mark.parametrize(
    ("part", "number"), [(1, signal.SIGKILL), (5, signal.SIGKILL), (3, signal.SIGINT)]
)
def test_a_stopped_run_that_is_resumed_ends_with_the_bytes_of_an_undisturbed_one(
    part: int,
    number: signal.Signals,
    slow_run: Callable[[Path], list[str]],
    undisturbed: dict[str, bytes],
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    last = out / f"part-{COUNT // PART_ROWS - 1:06}.parquet"
    with subprocess.Popen(slow_run(out), stderr=subprocess.PIPE, text=True) as process:
        while not (out / f"part-{part:06}.parquet").exists():
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(number)
        _, log = process.communicate(timeout=60)
    assert not last.exists()
    if number == signal.SIGINT:
        assert process.returncode == 128 + number
        assert f"Stopped. {out} has " in log and log.endswith("command with --resume.\n")
    subprocess.run(slow_run(out), check=True)
    assert last.exists() and contents(out) == undisturbed


def test_a_stopped_run_into_a_file_names_the_command_that_could_be_resumed(
    model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.npy"
    options = ["--model", str(model), "--dtype", "float32"]
    with subprocess.Popen(
        [sys.executable, "-m", "embedwell", "embed", "-o", str(out), *options],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not [*tmp_path.iterdir()]:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT and not [*tmp_path.iterdir()]
    assert f"Stopped. {out} is not written" in log
    assert f"embed into it with -o {tmp_path}/out/, and continue with --resume.\n" in log
