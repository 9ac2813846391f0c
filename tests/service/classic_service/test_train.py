"""`embedwell train`, to models that the server reads."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from embedwell.cli.commands import main
from embedwell_classic.tokenizers.words import WordTokenizer
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.tokenizer.tokenizer import Tokenizer
from tests.conftest import PROSE

COMMANDS = ["tokenizer", "words", "sentences"]

pytestmark = pytest.mark.needs("accelerate", "datasets", "gensim", "model2vec")


def run(*arguments: object, stdin: str | None = None, status: int = 0) -> str:
    result = CliRunner().invoke(main, ["train", *map(str, arguments)], input=stdin)
    assert result.exit_code == status, result.output
    return result.output


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text(PROSE, encoding="utf-8")
    return path


def test_tokenizer_writes_a_folder_and_prints_it(tmp_path: Path) -> None:
    out = tmp_path / "new" / "tokenizer"
    options = ("--algorithm", "bpe", "--vocabulary", 400, "--lower", "--max-length", 8)
    assert run("tokenizer", "-", "-o", out, *options, stdin=PROSE) == f"{out}\n"
    [row] = Tokenizer(out, 512).encode(["The LICENSE"])
    assert row.ids == Tokenizer(out, 512).encode(["the license"])[0].ids
    assert [path.name for path in out.parent.iterdir()] == ["tokenizer"]


def test_words_writes_a_folder_with_the_options(tmp_path: Path, corpus: Path) -> None:
    out = tmp_path / "words"
    options = ("--algorithm", "glove", "--dimensions", 6, "--epochs", 1, "--min-count", 40)
    assert run("words", corpus, "-o", out, *options).endswith(f"\n{out}\n")
    folder = ModelDescription.read(out)
    assert folder.dim == 6
    vocabulary = WordTokenizer.read(folder.encoder).vocabulary
    assert vocabulary.word(0) == "the" and len(vocabulary) < 20


def test_sentences_writes_a_folder_with_the_options(tmp_path: Path) -> None:
    out, source = tmp_path / "sentences", tmp_path / "pairs.tsv"
    source.write_text("a cat\ta dog\na ship\ta boat\n", encoding="utf-8")
    options = ("--layers", 1, "--dimensions", 32, "--heads", 2, "--vocabulary", 300, "--lower")
    training = ("--epochs", 2, "--initialization", "xavier", "--accumulation", 2)
    assert run("sentences", source, "-o", out, *options, *training).endswith(f"\n{out}\n")
    folder = ModelDescription.read(out)
    config = folder.spec.config
    assert (config.num_layers, config.hidden_size, config.attention.heads) == (1, 32, 2)
    assert config.max_positions == folder.recipe.max_length == 128
    assert folder.recipe.pooling == ("mean",) and folder.recipe.normalize
    upper, lower = folder.tokenizer().encode(["A CAT", "a cat"])
    assert upper.ids == lower.ids


def test_distill_writes_a_table_of_the_tokens(
    tiny_bert: Callable[..., Path], tmp_path: Path
) -> None:
    model, out = tiny_bert(), tmp_path / "static"
    assert run("distill", model, "-o", out, "--dimensions", 7).endswith(f"\n{out}\n")
    folder = ModelDescription.read(out)
    assert (folder.spec.config.family, folder.dim) == ("model2vec", 7)
    assert "exists already" in run("distill", model, "-o", out, status=1)


def test_heads_adds_outputs_to_a_model(tiny_bert: Callable[..., Path], tmp_path: Path) -> None:
    out, pairs = tmp_path / "heads", tmp_path / "pairs.jsonl"
    rows = [{"anchor": f"query {n}", "positive": f"text {n}"} for n in range(4)]
    pairs.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    options = ("--epochs", 1, "--batch-size", 2, "--max-length", 8, "--dtype", "float32")
    output = run("heads", tiny_bert(), pairs, "-o", out, *options)
    assert "step 2 of 2: loss" in output and output.endswith(f"\n{out}\n")
    assert ModelDescription.read(out).outputs == ("dense", "sparse", "multi")
    assert "exists already" in run("heads", tiny_bert(), pairs, "-o", out, status=1)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_that_exists_is_left_as_it_is(corpus: Path, command: str) -> None:
    message = "exists already: delete it, or name another folder"
    assert message in run(command, corpus, "-o", corpus.parent, status=1)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_corpus_is_refused_and_leaves_nothing(tmp_path: Path, command: str) -> None:
    output = run(command, "-", "-o", tmp_path / "out", stdin="\n", status=1)
    assert "Error: - has no texts: write one in each line" in output
    assert not [*tmp_path.iterdir()]
