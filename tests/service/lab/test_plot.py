"""`embedwell plot`."""

import io
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import orjson
import pytest
from click.testing import CliRunner
from matplotlib.image import imread
from transformers import T5EncoderModel

from embedwell.cli.commands import main
from embedwell.cli.options import install_command
from embedwell.routes.positions import SchemeName
from embedwell_lab.plots.projection import project
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.vectors import normalize
from tests.conftest import Folder
from tests.models.families.checkpoint import Case, write
from tests.models.tiny import VOCABULARY, write_tokenizer
from tests.service.commands import run_commands
from tests.service.server import Server

pytestmark = pytest.mark.full

TOPICS = {
    "battery": ["The battery lasts two days.", "Charging the battery takes forever."],
    "camera": ["Photos taken at night are sharp.", "The camera app crashes."],
    "service": ["Delivery took three weeks.", "The shop refunded me at once."],
}
FLOAT32 = ("--dtype", "float32")
TEXTS = [text for texts in TOPICS.values() for text in texts]


def run(*arguments: str | Path, status: int = 0) -> str:
    result = CliRunner().invoke(main, ["plot", *map(str, arguments)])
    assert result.exit_code == status, result.output
    return result.output


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS))
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "texts.csv"
    rows = [f'"{text}",{topic}' for topic, texts in TOPICS.items() for text in texts]
    path.write_text("\n".join(["text,topic", *rows]))
    return path


def data_of(page: Path) -> dict[str, Any]:
    found = re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"))
    assert found is not None
    data: dict[str, Any] = orjson.loads(found[1])
    return data


def test_a_map_shows_where_the_vectors_are(embedder: Embedder, lines: Path, tmp_path: Path) -> None:
    page = tmp_path / "map.html"
    assert run("map", lines, "-o", page, *FLOAT32).splitlines()[-1] == str(page)
    points = data_of(page)["points"]
    assert [text for *_, text in points] == TEXTS
    drawn = np.array([point[:2] for point in points])
    expected = project(normalize(embedder.embed(TEXTS)), "pca").points * (1, -1)
    np.testing.assert_allclose(  # the same up to a shift and the scale of each axis
        (drawn - drawn.mean(0)) / drawn.std(0), expected / expected.std(0), atol=1e-3
    )


def test_a_map_has_colours_by_column_or_by_cluster(
    tiny_bert: Folder, table: Path, tmp_path: Path
) -> None:
    picture, model = tmp_path / "map.svg", ("--model", tiny_bert(), *FLOAT32)
    run("map", table, "-o", picture, "--color-by", "topic", "--label", *model)
    svg = picture.read_text(encoding="utf-8")
    assert "camera (2)" in svg and "The camera app crashes." in svg
    run("map", table, "-o", picture, "--clusters", "3", "--method", "tsne", *model)
    assert "t-SNE, perplexity 1.67" in picture.read_text(encoding="utf-8")
    assert picture.read_text(encoding="utf-8").count(">3: ") == 1


def test_a_similarity_has_the_cosines(embedder: Embedder, lines: Path, tmp_path: Path) -> None:
    page, queries = tmp_path / "map.html", tmp_path / "queries.txt"
    queries.write_text("How is the camera?\n")
    run("similarity", queries, lines, "-o", page, *FLOAT32)
    (grid,) = data_of(page)["grids"]
    assert grid["rows"] == ["How is the camera?"] and grid["columns"] == TEXTS
    cosines = embedder.embed(["How is the camera?"]) @ embedder.embed(TEXTS).T
    np.testing.assert_allclose(grid["values"], cosines, atol=1e-4)


def test_a_server_and_a_model_here_give_the_same_pictures(
    server: Server, table: Path, tmp_path: Path
) -> None:
    here, there = tmp_path / "here.svg", tmp_path / "there.svg"
    for arguments in (
        ("map", table, "--color-by", "topic"),
        ("map", table, "--prompt", "query: "),
        ("similarity", table, "--metric", "euclidean", "--prompt", "query: "),
        ("positions", "--count", "40"),
        ("positions", "--scheme", "rotary", "--scaling", "yarn", "--factor", "2"),
    ):
        run(*arguments, "-o", here, *FLOAT32)
        run(*arguments, "-o", there, "--server", server.url)
        assert here.read_bytes() == there.read_bytes(), arguments
        assert f"{table.name}" in here.read_text() or arguments[0] == "positions"


@pytest.mark.parametrize("scheme", sorted(set(get_args(SchemeName)) - {"none", "learned"}))
def test_every_scheme_has_a_picture(tiny_bert: Folder, tmp_path: Path, scheme: str) -> None:
    picture = tmp_path / "positions.png"
    model = ("--model", tiny_bert())
    run("positions", "--scheme", scheme, "--count", "8", "-o", picture, "--dark", *model)
    assert imread(io.BytesIO(picture.read_bytes())).std() > 0.01


def test_the_first_vectors_of_a_learned_table_are_drawn(embedder: Embedder, tmp_path: Path) -> None:
    page = tmp_path / "positions.html"
    run("positions", "-o", page, "--count", "5", *FLOAT32)
    vectors, _ = data_of(page)["grids"]
    table = embedder.hidden([[0] * 5], "position")[0]
    np.testing.assert_allclose(vectors["values"], table, atol=1e-4)
    assert "the model's table has 512 positions" in run(
        "positions", "-o", page, "--count", "513", status=1
    )


def test_a_trained_bias_is_drawn_for_each_head(tmp_path: Path) -> None:
    model, page = tmp_path / "t5", tmp_path / "positions.html"
    model.mkdir()
    sizes = {"d_model": 64, "num_layers": 2, "num_heads": 4, "vocab_size": len(VOCABULARY)}
    write(Case("t5", {}, sizes, model=T5EncoderModel), model)
    write_tokenizer(model)
    run("positions", "-o", page, "--count", "3", "--model", model)
    table = ModelDescription.read(model).bias_table()
    assert table is not None
    grids = data_of(page)["grids"]
    assert len(grids) == table.shape[1]
    buckets = np.array([[0, 17, 18], [1, 0, 17], [2, 1, 0]])
    np.testing.assert_allclose(grids[1]["values"], table[buckets, 1], atol=1e-4)
    run("positions", "-o", page, "--count", "3", "--model", model, "--buckets", "16")
    (grid,) = data_of(page)["grids"]
    np.testing.assert_array_equal(grid["values"][0], [0, 9, 10])


@pytest.mark.full
def test_the_examples_of_the_documentation_draw_pictures(tmp_path: Path) -> None:
    docs = Path(__file__).parents[3] / "docs" / "plots.md"
    _, *blocks = re.findall(r"```sh\n(.*?)```", docs.read_text(encoding="utf-8"), re.DOTALL)
    script = "\n".join(blocks)
    commands = re.findall(r"^embedwell (plot .*)$", script, re.MULTILINE)
    files = re.sub(r"^embedwell .*$", "", script, flags=re.MULTILINE)
    subprocess.run(["bash", "-e", "-c", files], cwd=tmp_path, check=True)
    for done in run_commands(tmp_path, *map(shlex.split, commands)):
        assert done.returncode == 0, done.stderr
    targets = set(re.findall(r" -o (\S+)", script))
    assert {file.name for file in tmp_path.iterdir()} == {*targets, "reviews.csv"}


BAD = "no-such-model"
"""A model whose absence shows that an error came after it was looked for."""


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("map", "texts.txt", "-o", "map.jpg"), "map.jpg: the name must end in .png, .svg, .html"),
        (("map", "texts.txt", "-o", "none/map.png"), "cannot be written: No such file"),
        (("map", "none.txt", "-o", "map.png"), "'none.txt' does not exist"),
        (("map", "empty.txt", "-o", "map.png"), "empty.txt has no texts"),
        (
            ("map", "one.txt", "-o", "map.png"),
            "has 1 texts, but this plot needs at least 3",
        ),
        (("map", "texts.txt", "-o", "m.png", "--clusters", "7"), "this plot needs at least 7"),
        (
            ("map", "texts.csv", "-o", "map.png", "--color-by", "x"),
            "no column 'x'; it has: text, topic",
        ),
        (
            ("map", "texts.csv", "-o", "map.png", "--color-by", "topic", "--clusters", "2"),
            "not both: each needs the colours",
        ),
        (("similarity", "one.txt", "-o", "map.png"), "one.txt has only one text"),
        (
            ("similarity", "many.txt", "-o", "map.png"),
            "has 501 texts, but a plot shows at most 500",
        ),
        (("similarity", "one.txt", "many.txt", "-o", "map.png"), "many.txt has 501 texts"),
        (
            ("map", "texts.txt", "-o", "map.png", "--server", "localhost:8080"),
            "the address must begin with http:// or",
        ),
    ],
)
@pytest.mark.usefixtures("lines", "table")
def test_a_mistake_is_named_before_the_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], problem: str
) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "one.txt").write_text("one\n")
    (tmp_path / "many.txt").write_text("\n".join(map(str, range(501))))
    before = set(tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["plot", *arguments, "--model", BAD])
    assert result.exit_code != 0 and problem in " ".join(result.output.split())
    assert BAD not in result.output and set(tmp_path.iterdir()) == before


def test_a_failure_leaves_an_older_picture_as_it_was(lines: Path, tmp_path: Path) -> None:
    picture = tmp_path / "map.png"
    picture.write_text("older")
    assert "no model 'no-such-model'" in run("map", lines, "-o", picture, "--model", BAD, status=1)
    assert picture.read_text() == "older"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--scheme", "none"), "choose another with --scheme"),
        (("--scheme", "alibi", "--dim", "8"), "scheme 'alibi' has no option 'dim'"),
        (("--scheme", "rotary", "--dim", "0"), "--dim: Input should be greater than or equal to 1"),
        (("--scheme", "rotary", "--dim", "7"), "dim is 7, but rotary needs an even"),
        (("--layer", "99"), "layer is 99, but the model has 6"),
        (("--scheme", "alibi", "--heads", "1000", "--count", "2048"), "the limit is 4000000"),
    ],
)
def test_an_option_that_the_scheme_lacks_is_named(
    server: Server, tmp_path: Path, arguments: tuple[str, ...], problem: str
) -> None:
    target = ("-o", tmp_path / "positions.png")
    result = CliRunner().invoke(main, ["plot", "positions", *arguments, *map(str, target)])
    assert result.exit_code != 0 and problem in result.output
    message = run("positions", *arguments, *target, "--server", server.url, status=1)
    assert message.startswith("Error: ") and not list(tmp_path.iterdir())


def test_a_server_that_is_not_there_is_named(lines: Path, tmp_path: Path) -> None:
    url = "http://127.0.0.1:9"
    message = run("map", lines, "-o", tmp_path / "map.png", "--server", url, status=1)
    assert message.startswith(f"Error: {url}: ") and "unreachable" in message


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("matplotlib", ("positions",)),
        ("sklearn", ("map", "texts.txt")),
        ("umap", ("map", "texts.txt", "--method", "umap")),
    ],
)
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    lines: Path, tmp_path: Path, module: str, arguments: tuple[str, ...]
) -> None:
    program = (
        f"import sys; sys.modules[{module!r}] = None\n"
        f"from embedwell.cli.commands import main; main(['plot', *{arguments}, '-o', 'plot.png'])"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=lines.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"Error: {module} is not installed: {install_command('plot')}\n"


def test_a_png_without_glyphs_says_how_to_get_them(tiny_bert: Folder, tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(["one", "two", "\U0001f9ff three"]), encoding="utf-8")
    for suffix, noted in ((".png", True), (".svg", False)):
        target, model = tmp_path / f"map{suffix}", tiny_bert()
        output = run("map", path, "-o", target, "--label", "--model", model, *FLOAT32)
        assert ("installed fonts lack some characters" in output) == noted
