"""The example of a hybrid search, with PostgreSQL and pgvector."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from deploy.hybrid_search.__main__ import main
from tests.models.cross_encoder import write_cross_encoder
from tests.models.sparse_encoder import write_splade
from tests.postgres import postgres
from tests.service.several import SeveralModels

pytestmark = pytest.mark.full

PAGE = (Path(__file__).parent.parent / "docs" / "hybrid-search.md").read_text(encoding="utf-8")
DOCUMENTS = "60"


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgres() as url:
        yield url


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The default model, and those of other stages with random weights."""
    folder = tmp_path_factory.mktemp("search")
    write_splade(folder / "splade")
    models = {
        "minilm": {"source": "all-MiniLM-L6-v2"},
        "splade": {"source": str(folder / "splade")},
        "reranker": {"source": str(write_cross_encoder(folder / "reranker"))},
    }
    with SeveralModels(folder, models) as running:
        yield running.url


def measure(database: str, server: str, *arguments: str) -> dict[str, list[float]]:
    """Run the command, and return the numbers that it prints for each stage."""
    command = ["--database", database, "--server", server, "--documents", DOCUMENTS, *arguments]
    result = CliRunner().invoke(main, command, catch_exceptions=False)
    assert f"({DOCUMENTS} documents)" in result.stdout
    lines = [re.split(r"\s{2,}", line) for line in result.stdout.splitlines()[1:]]
    return {name: [float(number.rstrip("%")) for number in numbers] for name, *numbers in lines}


def test_every_stage_of_the_page_is_measured(database: str, server: str) -> None:
    [command] = re.findall(r"python -m deploy\.hybrid_search --database \S+ (.*)", PAGE)
    stages = measure(database, server, *command.split())
    assert list(stages) == [
        *("words", "dense", "words + dense", "sparse", "words + dense + sparse"),
        *("dense + sparse", "reranked"),
    ]
    assert all(0 <= first <= ten <= 100 for first, ten, _ in stages.values())


def test_dense_vectors_find_more_than_words(database: str, server: str) -> None:
    stages = measure(database, server)
    assert list(stages) == ["words", "dense", "words + dense"]
    assert stages["words"][1] < 80 < stages["dense"][1]
