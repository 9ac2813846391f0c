"""The tutorial of docs/training.md, from its text file to /similarity."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import orjson
import pytest
import torch
from click.testing import CliRunner

from embedwell.cli.commands import main
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.vectors import normalize
from tests.service.local_server import local_server

pytestmark = pytest.mark.needs("accelerate", "datasets", "gensim", "model2vec")
TEXT = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
TEXT = TEXT.replace("\\\n", "")  # a command on several lines
COMMANDS = dict(re.findall(r"^embedwell (train (\w+) .*)$", TEXT, re.MULTILINE))
BY_NAME = {name: command for command, name in COMMANDS.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The files and models of the page, which are computed in one thread."""
    folder, threads = tmp_path_factory.mktemp("page"), torch.get_num_threads()
    [program] = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    torch.set_num_threads(1)
    with chdir(folder):
        exec(compile(program, "corpus.py", "exec"), {})
        for command in COMMANDS:
            result = CliRunner().invoke(main, command.split(), catch_exceptions=False)
            assert result.exit_code == 0, result.output
    yield folder
    torch.set_num_threads(threads)


def test_the_page_has_every_command() -> None:
    assert sorted(BY_NAME) == ["distill", "heads", "sentences", "tokenizer", "words"]
    served = re.findall(r"^embedwell serve (\S+)$", TEXT, re.MULTILINE)
    assert [BY_NAME["sentences"].split()[4], BY_NAME["heads"].split()[5]] == served


def test_texts_about_one_topic_are_alike_as_the_page_says(folder: Path) -> None:
    [question] = re.findall(r"^curl .*?/similarity .*?'$", TEXT, re.DOTALL | re.MULTILINE)
    with local_server(folder / "topics") as server:
        local = question.replace("localhost:8080", server.url.removeprefix("http://"))
        process = subprocess.run(["bash", "-c", local], capture_output=True, check=True)
    same, other = orjson.loads(process.stdout)
    assert same > 0.9 and other < 0.8


def test_words_that_are_used_alike_are_neighbours(folder: Path) -> None:
    words = ["goat", "yacht", "hay"]
    with local_server(folder / "words") as server:
        response = server.client.post("/neighbors", json={"inputs": words, "k": 3}).json()
    nearest = [{word["text"] for word in found} for found in response["neighbors"]]
    groups = re.findall(r'"([a-z ]+?)"', TEXT)
    classes = [next({*g.split()} for g in groups if w in g.split()) for w in words]
    assert all(found <= group for found, group in zip(nearest, classes, strict=True))


def test_a_model_of_dense_vectors_has_learnt_other_outputs(folder: Path) -> None:
    body = {"inputs": "The goat wants the straw.", "outputs": ["dense", "sparse", "multi"]}
    with local_server(folder / "minilm-heads") as server:
        response = server.client.post("/embed", json=body).json()
    tokens = {"the", "goat", "wants", "straw", "."}
    assert 0 < len(response["sparse"][0]["indices"]) <= len(tokens)
    assert len(response["embeddings"][0]) == len(response["multi"][0][0]) == 384


def test_the_table_has_learnt_from_the_model(folder: Path) -> None:
    words = ["cat", "cow", "ship", "coast"]
    cat, cow, ship, coast = normalize(Embedder.load(folder / "static", device="cpu").embed(words))
    assert ModelDescription.read(folder / "static").dim == 32
    assert min(cat @ cow, ship @ coast) > max(cat @ ship, cow @ coast)


def test_the_tokenizer_knows_the_words(folder: Path) -> None:
    [row] = Tokenizer(folder / "tokenizer", 512).encode(["The Goat."])
    assert row.ids[0] == 2 and len(row.ids) == 5
