"""The example of a hybrid search, with PostgreSQL and pgvector."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from embedwell_classic.training.corpus import Pairs, open_corpus
from embedwell_classic.training.heads import HeadTraining, train_heads
from embedwell_models.hub.sources import resolve
from examples.hybrid_search.__main__ import main
from examples.hybrid_search.documents import read_documents
from tests.models.cross_encoder import write_cross_encoder
from tests.models.sparse_encoder import write_splade
from tests.postgres import postgres
from tests.service.server import SeveralModels

pytestmark = pytest.mark.full

PAGE = (Path(__file__).parents[2] / "docs" / "hybrid-search.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"python -m examples\.hybrid_search --database \S+ (.*)", PAGE)
DOCUMENTS, FEWER = 60, 30  # by token vectors, each query ranks documents of 256 tokens


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
        "minilm-heads": {"source": str(write_heads(folder))},
        "splade": {"source": str(folder / "splade")},
        "reranker": {"source": str(write_cross_encoder(folder / "reranker"))},
    }
    with SeveralModels(folder, models) as running:
        yield running.url


def write_heads(folder: Path) -> Path:
    """Train further outputs of the default model on documents that are not searched."""
    rows = [[d.query, d.text] for d in read_documents(400)[DOCUMENTS:]]
    pairs, model = folder / "pairs.jsonl", folder / "minilm-heads"
    lines = (json.dumps({"anchor": query, "positive": text}) for query, text in rows)
    pairs.write_text("\n".join(lines), encoding="utf-8")
    model.mkdir()
    training = HeadTraining(epochs=1, dtype="float32")
    with open_corpus(pairs) as corpus:
        train_heads(resolve("all-MiniLM-L6-v2"), Pairs(corpus), model, training)
    return model


def measure(database: str, server: str, documents: int, *arguments: str) -> dict[str, list[float]]:
    """Run the command, and return the numbers that it prints for each stage."""
    command = ["--database", database, "--server", server, "--documents", str(documents)]
    result = CliRunner().invoke(main, [*command, *arguments], catch_exceptions=False)
    assert f"({documents} documents)" in result.stdout
    lines = [re.split(r"\s{2,}", line) for line in result.stdout.splitlines()[1:]]
    return {name: [float(number.rstrip("%")) for number in numbers] for name, *numbers in lines}


def test_every_stage_of_the_page_is_measured(database: str, server: str) -> None:
    command, _ = COMMANDS
    stages = measure(database, server, FEWER, *command.split())
    assert list(stages) == [
        *("words", "dense", "words + dense", "sparse", "words + dense + sparse"),
        *("dense + sparse", "reranked"),
    ]
    assert all(0 <= first <= ten <= 100 for first, ten, _ in stages.values())


def test_dense_vectors_find_more_than_words(database: str, server: str) -> None:
    stages = measure(database, server, DOCUMENTS)
    assert list(stages) == ["words", "dense", "words + dense"]
    assert stages["words"][1] < 80 < stages["dense"][1]


def test_trained_outputs_of_one_model_find_more_than_words(database: str, server: str) -> None:
    _, command = COMMANDS
    stages = measure(database, server, FEWER, *command.split())
    reciprocal_ranks = {name: numbers[2] for name, numbers in stages.items()}
    assert reciprocal_ranks["words"] < reciprocal_ranks["sparse"]
    assert reciprocal_ranks["words + dense"] < reciprocal_ranks["reranked"]
