"""Images of pages, with a vector for each token: what is written, and what is left out."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from embedwell.cli.commands import main
from embedwell.settings.settings import Settings
from embedwell_bulk import BulkError
from embedwell_bulk.columns import Columns, ImageAndText
from embedwell_bulk.local_images import LocalPages, load_local_images
from embedwell_bulk.text_encoder import Advance, Pending
from embedwell_models.embedder import Embedder
from embedwell_models.encoder.token_pooling import pool_tokens
from embedwell_models.vectors import Floats
from tests.models.colmodernvbert import write_colmodernvbert
from tests.models.colpali import write_colpali
from tests.models.colqwen2 import write_colqwen2
from tests.models.image_models import encoded, picture
from tests.service.bulk.jobs import contents, read_output, run_job

PAGES = [encoded(picture(60 + 41 * seed, 90, seed)) for seed in range(3)]
COLUMNS = Columns(None, "id", image="image")
_WRITERS: dict[str, Callable[[Path], Any]] = {
    "tiles": write_colmodernvbert,
    "square": write_colpali,
    "patches": write_colqwen2,
}


def load(folder: Path, **options: Any) -> LocalPages:
    loaded = load_local_images(
        Settings(model=str(folder), device="cpu", dtype="float32"), **options
    )
    assert isinstance(loaded, LocalPages)
    return loaded


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages")
    write_colqwen2(path)
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> LocalPages:
    return load(folder)


def write(path: Path, images: list[Any]) -> Path:
    pq.write_table(pa.table({"id": range(len(images)), "image": images}), path)
    return path


def vectors_of(table: pa.Table) -> list[Floats]:
    """The vectors of each page of an output."""
    return [np.array(page, np.float32) for page in table["embedding"].to_pylist()]


def assert_same(found: list[Floats], expected: list[Floats]) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("kind", _WRITERS)
def test_pages_have_the_vectors_of_the_library(kind: str, tmp_path: Path) -> None:
    _WRITERS[kind](tmp_path / "model")
    model, path = load(tmp_path / "model"), write(tmp_path / "in.parquet", [*PAGES, PAGES[0]])
    counts = run_job(model, path, tmp_path / "out", columns=COLUMNS)
    assert (counts["embedded"], counts["computed"]) == (4, 3)
    table = read_output(tmp_path / "out")
    assert table.column_names == ["id", "embedding"]
    assert table.schema.field("embedding").type.value_type.list_size == model.dim
    expected = model.model.embedder.embed_pages(PAGES)
    assert_same(vectors_of(table), [*expected, expected[0]])
    described = json.loads((tmp_path / "out/_manifest.json").read_text())["run"]
    assert described["output"] == "multi" and described["part_rows"] == 512


def test_the_vectors_of_pages_are_pooled(folder: Path) -> None:
    model = load(folder, pool_factor=3)
    assert model.description["pool_factor"] == 3
    vectors, _ = model.embed([ImageAndText(page) for page in PAGES], lambda _: None)
    pages = model.model.embedder.embed_pages(PAGES)
    assert_same([*vectors.each], [pool_tokens(page, 3) for page in pages])


def test_pages_that_cannot_be_read_are_left_out(model: LocalPages, tmp_path: Path) -> None:
    path = write(tmp_path / "in.parquet", [b"?", PAGES[1], None])
    assert run_job(model, path, tmp_path / "out", columns=COLUMNS)["errors"] == 2
    table = read_output(tmp_path / "out")
    assert table["id"].to_pylist() == [1]
    assert_same(vectors_of(table), model.model.embedder.embed_pages(PAGES[1:2]))
    lines = (tmp_path / "out/_errors-000000.jsonl").read_text().splitlines()
    assert ["cannot be read" in lines[0], "image is null" in lines[1]] == [True, True]


def test_a_part_of_bad_pages_has_no_vectors(model: LocalPages, tmp_path: Path) -> None:
    run_job(model, write(tmp_path / "in.parquet", [b"?"]), tmp_path / "out", columns=COLUMNS)
    assert vectors_of(read_output(tmp_path / "out")) == []


def test_npy_parts_have_the_rows_of_all_pages_and_their_numbers(
    model: LocalPages, tmp_path: Path
) -> None:
    path, out = write(tmp_path / "in.parquet", [PAGES[0], b"?", PAGES[1]]), tmp_path / "out"
    run_job(model, path, out, columns=COLUMNS, format="npy")
    assert pq.read_table(out / "part-000000.parquet")["id"].to_pylist() == [0, 2]
    lengths = np.load(out / "_lengths-000000.npy")
    found = np.split(np.load(out / "part-000000.npy"), np.cumsum(lengths)[:-1])
    assert_same(found, model.model.embedder.embed_pages(PAGES[:2]))


class Stopped(Exception):
    """Exception that stops a run."""


class StoppingPages(LocalPages):
    """A model that stops a run at its second part."""

    def begin(self, inputs: Any, advance: Advance) -> Pending:
        if inputs[0].image == PAGES[1]:
            raise Stopped
        return super().begin(inputs, advance)


def test_a_run_that_was_stopped_ends_as_an_undisturbed_one(
    model: LocalPages, tmp_path: Path
) -> None:
    path, whole, out = write(tmp_path / "in.parquet", PAGES), tmp_path / "whole", tmp_path / "out"
    run_job(model, path, whole, columns=COLUMNS, part_rows=1)
    with pytest.raises(Stopped):
        stopping = StoppingPages(model.model, model.files, model.pages)
        run_job(stopping, path, out, columns=COLUMNS, part_rows=1)
    run_job(model, path, out, columns=COLUMNS, part_rows=1, resume=True)
    assert contents(out) == contents(whole)


def test_a_page_has_the_same_bits_in_any_order(model: LocalPages) -> None:
    inputs = [*map(ImageAndText, PAGES)]
    vectors, _ = model.embed(inputs, lambda _: None)
    backwards, _ = model.embed(inputs[::-1], lambda _: None)
    assert_same([*vectors.each], [*backwards.each][::-1])


def test_a_page_that_does_not_fit_has_a_reason(tmp_path: Path) -> None:
    write_colqwen2(tmp_path, max_length=16)
    vectors, rejected = load(tmp_path).embed([ImageAndText(PAGES[2])], lambda _: None)
    assert "fit into the 16 tokens that are read" in rejected[0] and not len(vectors.each[0])


def test_the_limit_of_pixels_holds(model: LocalPages) -> None:
    small = replace(model, files=replace(model.files, max_pixels=100))
    assert "the limit is 100" in small.embed([ImageAndText(PAGES[0])], lambda _: None)[1][0]


@pytest.mark.parametrize("options", [{"prompt": "a"}, {"texts": True}], ids=["prompt", "column"])
def test_options_of_texts_are_refused(
    options: dict[str, Any], folder: Path, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id
    with pytest.raises(BulkError, match=f"reads images without texts; leave out --{name}"):
        load(folder, **options)


def test_the_command_writes_pages(folder: Path, tmp_path: Path) -> None:
    path, out = write(tmp_path / "in.parquet", PAGES), tmp_path / "out"
    model = ["--model", str(folder), "--dtype", "float32", "--device", "cpu"]
    command = ["embed", str(path), "-o", f"{out}/", "--image", "image", "--id", "id", *model]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0 and "3 images embedded into " in result.output
    embedder = Embedder.load(folder, device="cpu", dtype="float32")
    assert_same(vectors_of(read_output(out)), embedder.embed_pages(PAGES))
