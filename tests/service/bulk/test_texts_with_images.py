"""Images that are tokens of a text: alone, with a column of texts, and rows without a vector."""

import json
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
from embedwell_bulk.local_images import LocalTextsWithImages, load_local_images
from embedwell_models.embedder import Embedder
from tests.models.image_models import encoded, picture
from tests.models.jina_v4 import write_jina_v4
from tests.models.nomic_multimodal import write_nomic_multimodal
from tests.models.qwen2_vl import write_gme
from tests.models.qwen3_vl import PROCESSOR, save, write_qwen3_vl
from tests.service.bulk.jobs import read_output, run_job, vectors_of

FILES = [encoded(picture(60 + 31 * seed, 90, seed)) for seed in range(3)]
TEXTS = ["the license", "", "any work"]
BOTH = Columns("text", "id", image="image")


def settings(folder: Path) -> Settings:
    return Settings(model=str(folder), device="cpu", dtype="float32")


def loaded(folder: Path) -> LocalTextsWithImages:
    model = load_local_images(settings(folder), texts=True)
    assert isinstance(model, LocalTextsWithImages)
    return model


@pytest.fixture(scope="module")
def gme_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gme")
    write_gme(folder)
    return folder


@pytest.fixture(scope="module")
def gme(gme_folder: Path) -> LocalTextsWithImages:
    return loaded(gme_folder)


def write(path: Path, images: list[Any], texts: list[Any]) -> Path:
    table = pa.table({"id": range(len(images)), "image": images, "text": texts})
    pq.write_table(table, path)
    return path


def reasons(output: Path) -> dict[int, str]:
    lines = (output / "_errors-000000.jsonl").read_text().splitlines()
    return {error["id"]: error["reason"] for error in map(json.loads, lines)}


def test_images_alone_have_the_vectors_of_the_library(
    gme: LocalTextsWithImages, tmp_path: Path
) -> None:
    path = write(tmp_path / "in.parquet", [*FILES, FILES[0], None, b"?"], ["a"] * 6)
    columns = Columns(None, "id", image="image")
    counts = run_job(gme, path, tmp_path / "out", columns=columns)
    assert (counts["embedded"], counts["computed"]) == (4, 4)  # an unreadable one is tried
    table = read_output(tmp_path / "out")
    assert table.column_names == ["id", "text", "embedding"]
    expected = gme.model.embedder.embed_images(FILES)
    np.testing.assert_array_equal(vectors_of(table), expected[[0, 1, 2, 0]])
    found = reasons(tmp_path / "out")
    assert found[4] == "image is null" and "cannot be read" in found[5]


def test_a_row_has_an_image_a_text_or_both(gme: LocalTextsWithImages, tmp_path: Path) -> None:
    path = write(
        tmp_path / "in.parquet", [*FILES, None, FILES[0], None], [*TEXTS, "alone", None, None]
    )
    assert run_job(gme, path, tmp_path / "out", columns=BOTH)["embedded"] == 5
    table = read_output(tmp_path / "out")
    assert table.column_names == ["id", "text", "embedding"]
    parts = [*zip(FILES, TEXTS, strict=True), ("alone",), (FILES[0],)]
    expected = gme.model.embedder.embed_contents(parts)
    np.testing.assert_array_equal(vectors_of(table), expected)
    assert reasons(tmp_path / "out") == {5: "image is null and text is null"}


@pytest.mark.parametrize("name", ["in.csv", "in.jsonl"])
def test_paths_may_be_missing_next_to_texts(
    gme: LocalTextsWithImages, name: str, tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_bytes(FILES[0])
    rows: list[dict[str, Any]] = [
        {"id": 0, "image": "a.png", "text": "the license"},
        {"id": 1, "image": "" if name == "in.csv" else None, "text": "alone"},
        {"id": 2, "image": "b.png", "text": "any"},
    ]
    if name == "in.csv":
        lines = [",".join(map(str, row.values())) for row in rows]
        (tmp_path / name).write_text("\n".join(["id,image,text", *lines]))
    else:
        rows += [{"id": 3}, {"id": 4, "image": 1, "text": "any"}]
        (tmp_path / name).write_text("\n".join(map(json.dumps, rows)))
    run_job(gme, tmp_path / name, tmp_path / "out", columns=BOTH)
    expected = gme.model.embedder.embed_contents([[FILES[0], "the license"], ["alone"]])
    np.testing.assert_array_equal(vectors_of(read_output(tmp_path / "out")), expected)
    if name == "in.jsonl":
        found = reasons(tmp_path / "out")
        assert "cannot be read" in found[2] and found[3] == "no image and no text"
        assert found[4] == "image is not a string"


def test_an_input_has_the_same_bits_in_any_order(gme: LocalTextsWithImages) -> None:
    inputs = [*map(ImageAndText, FILES, TEXTS), ImageAndText(text="alone")]
    vectors, _ = gme.embed(inputs, lambda _: None)
    backwards, _ = gme.embed(inputs[::-1], lambda _: None)
    assert vectors.tobytes() == backwards[::-1].tobytes()


def test_images_that_do_not_fit_have_a_reason(tmp_path: Path) -> None:
    write_gme(tmp_path, max_length=50)
    model = loaded(tmp_path)
    vectors, rejected = model.embed([ImageAndText(FILES[2], "any")], lambda _: None)
    assert "fit into the 50 tokens that are read" in rejected[0] and not vectors.any()
    long = replace(model, model=replace(model.model, prompt="the license " * 9))
    with pytest.raises(BulkError, match=r"the prompt takes all of the 50 tokens .*; shorten it"):
        long.embed([ImageAndText(FILES[2])], lambda _: None)


def test_the_limit_of_pixels_holds(gme: LocalTextsWithImages) -> None:
    small = LocalTextsWithImages(gme.model, replace(gme.files, max_pixels=100))
    assert "the limit is 100" in small.embed([ImageAndText(FILES[0])], lambda _: None)[1][0]


def test_the_command_embeds_texts_with_images_of_qwen3_vl(tmp_path: Path) -> None:
    model = tmp_path / "model"
    write_qwen3_vl(model)
    save(model, "preprocessor_config.json", PROCESSOR)
    path, out = write(tmp_path / "in.parquet", FILES, TEXTS), tmp_path / "out"
    options = ["--image", "image", "--column", "text", "--prompt", "Find the work.", "--dtype"]
    command = ["embed", str(path), "-o", f"{out}/", "--model", str(model), *options, "float32"]
    result = CliRunner(env={"EMBEDWELL_POOLING": "lasttoken"}).invoke(main, command)
    assert result.exit_code == 0 and "3 inputs embedded into " in result.output
    embedder = Embedder.load(model, device="cpu", dtype="float32", pooling="lasttoken")
    parts = [*zip(FILES, TEXTS, strict=True)]
    expected = embedder.embed_contents(parts, prompt="Find the work.")
    np.testing.assert_array_equal(vectors_of(read_output(out)), expected)
    described = json.loads((out / "_manifest.json").read_text())["run"]
    assert described["columns"] == {"text": "text", "image": "image", "id": None, "keep": None}
    assert described["prompt"] == "Find the work."


def test_a_prompt_of_nomic_embed_multimodal_is_for_texts(tmp_path: Path) -> None:
    write_nomic_multimodal(tmp_path)
    path, out = write(tmp_path / "in.parquet", [*FILES, None], [None] * 3 + TEXTS[:1]), "out"
    model = settings(tmp_path / "nomic").model_copy(update={"cache": tmp_path / "cache"})
    with pytest.raises(BulkError, match="reads images without a prompt; leave out --prompt"):
        load_local_images(model, "Query: ")
    encoder = load_local_images(model, "Query: ", texts=True)
    run_job(encoder, path, tmp_path / out, columns=BOTH)
    embedder = encoder.model.embedder
    expected = [*embedder.embed_images(FILES), embedder.embed(TEXTS[0], prompt_name="query")]
    np.testing.assert_array_equal(vectors_of(read_output(tmp_path / out)), expected)


def test_a_model_of_single_images_takes_no_texts_with_them(tmp_path: Path) -> None:
    write_jina_v4(tmp_path)
    options = settings(tmp_path).model_copy(update={"adapter": "retrieval"})
    with pytest.raises(BulkError, match="reads images without texts"):
        load_local_images(options, texts=True)
    model = load_local_images(options)
    assert isinstance(model, LocalTextsWithImages)
    found, rejected = model.embed([ImageAndText(each, None) for each in FILES], lambda _: None)
    assert np.array_equal(found, model.model.embedder.embed_images(FILES)) and not rejected
