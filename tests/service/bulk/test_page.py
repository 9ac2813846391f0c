"""The examples of docs/bulk.md run."""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, chdir
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from embedwell.cli.commands import main
from embedwell_models.embedder import Embedder
from tests.service.bulk.jobs import prose, vectors_of
from tests.service.local_server import local_server
from tests.service.server import MAX_ISA

pytestmark = pytest.mark.full

PAGE = (Path(__file__).parents[3] / "docs" / "bulk.md").read_text(encoding="utf-8")
PAGE = PAGE.replace("\\\n", "")  # a command on several lines
COMMANDS = re.findall(r"^embedwell (embed .*)$", PAGE, re.MULTILINE)
(READ,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
FLOAT32 = ["--dtype", "float32", "--isa", MAX_ISA]


@pytest.fixture(scope="module")
def folder(minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The files of the page, after all its commands."""
    folder = tmp_path_factory.mktemp("page")
    table = pa.table({"id": range(20), "body": prose(20)})
    pq.write_table(table, folder / "documents.parquet")
    (folder / "logs").mkdir()
    with pa.output_stream(folder / "logs" / "a.jsonl.gz", compression="detect") as file:
        file.write(b'{"text": "a", "source": "b"}\n')
    (folder / "notes.txt").write_text("c\n")
    (folder / "lines.txt").write_text("one\ntwo\n")
    with ExitStack() as stack:
        urls = [stack.enter_context(local_server(minilm_folder)).url for _ in range(2)]
        stack.enter_context(chdir(folder))
        text = "\n".join(COMMANDS)
        for port, url in zip((8080, 8081), urls, strict=True):
            text = text.replace(f"http://localhost:{port}", url)
        for line in text.splitlines():
            command, _, redirected = line.partition(" < ")
            stdin = Path(redirected).read_bytes() if redirected else None
            arguments = [*shlex.split(command, comments=True), *FLOAT32]
            result = CliRunner().invoke(main, arguments, input=stdin)
            assert result.exit_code == 0, result.output
        yield folder


@pytest.mark.parametrize("name", ["vectors", "served", "shared"])
def test_a_folder_of_the_page_has_the_vectors_of_the_texts(
    name: str, folder: Path, embedder: Embedder
) -> None:
    table = pq.read_table(folder / name)
    np.testing.assert_array_equal(vectors_of(table), embedder.embed(prose(20)))
    manifests = [json.loads(path.read_text()) for path in (folder / name).glob("_manifest*")]
    assert len(manifests) == 1 + (name == "shared") and all(m["complete"] for m in manifests)


def test_files_of_several_kinds_become_one_output(folder: Path) -> None:
    table = pq.read_table(folder / "notes")
    assert table.drop_columns(["embedding"]).to_pydict() == {"row": [0, 1], "source": ["b", None]}


def test_a_file_of_the_page_has_the_vectors_of_its_lines(folder: Path, embedder: Embedder) -> None:
    vectors = embedder.embed(["one", "two"])
    np.testing.assert_array_equal(np.load(folder / "lines.npy"), vectors)
    lines = [json.loads(line) for line in (folder / "lines.jsonl").read_text().splitlines()]
    assert [line["text"] for line in lines] == ["one", "two"]


def test_the_python_example_reads_the_vectors(folder: Path) -> None:
    exec(compile(READ, "read.py", "exec"), {})
