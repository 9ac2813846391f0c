"""The examples of docs/vector-stores.md run."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from qdrant_client import QdrantClient

from embedwell_bulk.columns import Columns
from embedwell_bulk.local_model import LocalModel
from embedwell_models.embedder import Embedder
from embedwell_models.vectors import Floats
from tests.postgres import postgres
from tests.service.bulk.jobs import prose, run_job, vectors_of
from tests.service.server import Server

pytestmark = pytest.mark.full

PAGE = (Path(__file__).parents[3] / "docs" / "vector-stores.md").read_text(encoding="utf-8")
PGVECTOR, LANCE, LANCE_SEARCH, QDRANT, DAFT = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
TEXTS = prose(20)


@pytest.fixture(scope="module")
def folder(embedder: Embedder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The current folder: documents, and their vectors in parts of eight rows."""
    folder = tmp_path_factory.mktemp("stores")
    pq.write_table(pa.table({"id": range(20), "body": TEXTS}), folder / "documents.parquet")
    run_job(
        LocalModel(embedder, "all-MiniLM-L6-v2"),
        folder / "documents.parquet",
        folder / "vectors",
        columns=Columns(text="body", id="id"),
        part_rows=8,
    )
    with chdir(folder):
        yield folder


@pytest.fixture(scope="module")
def vectors(folder: Path) -> Floats:
    """The vectors of the folder, in the order of the documents: (20, 384)."""
    return vectors_of(pq.read_table(folder / "vectors"))


def run_example(code: str, *replaced: tuple[str, str]) -> str:
    """Run an example in a process of its own, with other addresses: -> what it prints."""
    for old, new in replaced:
        assert old in code
        code = code.replace(old, new)
    arguments = [sys.executable, "-c", code]
    result = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_pgvector_has_the_vectors_of_all_parts(folder: Path, vectors: Floats) -> None:
    with postgres() as url:
        run_example(PGVECTOR, ("postgresql://localhost/postgres", url))
        with psycopg.connect(url) as database:
            rows = database.execute("SELECT id, embedding::text FROM documents ORDER BY id")
            ids, texts = zip(*rows.fetchall(), strict=True)
    assert [*ids] == [*range(20)]
    stored = np.array([json.loads(text) for text in texts], dtype=np.float32)
    np.testing.assert_array_equal(stored, vectors)


def test_lance_has_the_vectors_and_finds_the_text_that_equals_the_query(
    folder: Path, vectors: Floats, server: Server
) -> None:
    # Not in this process: lance warns of every fork, which the engines of other tests are.
    write = "pyarrow.parquet.write_table(documents.to_table(), 'stored.parquet')"
    run_example(f"import pyarrow.parquet\n{LANCE}{write}")
    stored = pq.read_table("stored.parquet")
    assert stored.drop_columns(["embedding"]) == pq.read_table("documents.parquet")
    np.testing.assert_array_equal(vectors_of(stored), vectors)
    found = run_example(
        LANCE_SEARCH + "print(nearest['id'][0])",
        ("how are you?", TEXTS[5]),
        ("http://localhost:8080", server.url),
    )
    assert found == "5\n"


def test_qdrant_has_the_vectors_and_the_other_columns(folder: Path, vectors: Floats) -> None:
    run_example(QDRANT + "client.close()", ('"http://localhost:6333"', 'path="qdrant"'))
    client = QdrantClient(path="qdrant")
    points = client.retrieve("documents", [*range(20)], with_vectors=True)
    client.close()
    assert [point.payload for point in points] == [{"body": text} for text in TEXTS]
    stored = np.array([point.vector for point in points], dtype=np.float32)
    np.testing.assert_allclose(stored, vectors, atol=1e-6)  # it divides by their length again


def test_daft_writes_the_vectors_of_a_server(folder: Path, vectors: Floats, server: Server) -> None:
    run_example(DAFT, ("http://localhost:8080", server.url))
    table = pq.read_table("embedded")
    assert table["id"].to_pylist() == [*range(20)]
    cosines = np.vecdot(vectors_of(table), vectors)
    assert cosines.min() > 0.999  # the server computes in its own precision
