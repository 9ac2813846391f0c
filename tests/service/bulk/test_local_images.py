"""Images of tables and folders: vectors, bad images, and what is written."""

import contextlib
import json
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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
from embedwell_bulk.local_images import (
    ImageFiles,
    LocalImages,
    _fetched_ahead,
    load_local_images,
)
from embedwell_bulk.local_model import LocalModel
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ImageError
from embedwell_models.vectors import Floats
from embedwell_models.vision import Pixels
from tests.models.image_models import encoded, picture
from tests.models.tiny import write_bert
from tests.service.bulk.jobs import read_output, run_job, vectors_of, write_parquet

FILES = [
    encoded(picture(20 + 7 * seed, 90, seed), "JPEG" if seed % 2 else "PNG") for seed in range(5)
]
COLUMNS = Columns(None, "id", image="image")


@pytest.fixture(scope="module")
def images(clip_folder: Path) -> LocalImages:
    settings = Settings(model=str(clip_folder), device="cpu", dtype="float32", max_batch_tokens=40)
    loaded = load_local_images(settings)
    assert isinstance(loaded, LocalImages)
    return loaded


@pytest.fixture(scope="module")
def expected(clip_folder: Path) -> Floats:
    return Embedder.load(clip_folder, device="cpu", dtype="float32").embed_images(FILES)


def write(path: Path, column: Any, **others: Any) -> Path:
    pq.write_table(pa.table({"id": range(len(column)), "image": column, **others}), path)
    return path


def alone_each(files: Sequence[bytes]) -> list[ImageAndText]:
    """An input of each image, without a text."""
    return [*map(ImageAndText, files)]


def as_struct(files: list[bytes | None]) -> pa.Array:
    """A column as the datasets library writes it."""
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    return pa.array([{"bytes": data, "path": "a.png"} for data in files], kind)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view(), None], ids=str)
def test_a_column_of_bytes_has_the_vectors_of_the_library(
    images: LocalImages, expected: Floats, kind: pa.DataType | None, tmp_path: Path
) -> None:
    column = as_struct([*FILES]) if kind is None else pa.array(FILES, pa.binary()).cast(kind)
    path = tmp_path / "in.arrow"
    with pa.ipc.new_file(
        path, (table := pa.table({"id": range(5), "image": column})).schema
    ) as file:
        file.write_table(table)
    counts = run_job(images, path, tmp_path / "out", columns=COLUMNS)
    table = read_output(tmp_path / "out")
    assert counts["embedded"] == 5 and table.column_names == ["id", "embedding"]
    np.testing.assert_array_equal(vectors_of(table), expected)


def test_the_bytes_are_written_only_by_name(images: LocalImages, tmp_path: Path) -> None:
    path = write(tmp_path / "in.parquet", FILES, label=["a"] * 5)
    run_job(images, path, tmp_path / "all", columns=COLUMNS)
    assert read_output(tmp_path / "all").column_names == ["id", "label", "embedding"]
    kept = Columns(None, "id", ("image",), "image")
    run_job(images, path, tmp_path / "kept", columns=kept)
    assert read_output(tmp_path / "kept")["image"].to_pylist() == FILES


@pytest.mark.parametrize("name", ["in.parquet", "in.jsonl", "in.csv"])
def test_paths_are_relative_to_the_file_that_has_them(
    images: LocalImages, expected: Floats, name: str, tmp_path: Path
) -> None:
    folder = tmp_path / "a folder"
    (folder / "pictures").mkdir(parents=True)
    for index, data in enumerate(FILES):
        (folder / "pictures" / f"{index}.png").write_bytes(data)
    paths = [f"pictures/{index}.png" for index in range(4)] + [str(folder / "pictures" / "4.png")]
    if name == "in.parquet":
        write(folder / name, paths)
    elif name == "in.jsonl":
        lines = [json.dumps({"id": i, "image": path}) for i, path in enumerate(paths)]
        (folder / name).write_text("\n".join(lines))
    else:
        (folder / name).write_text(
            "\n".join(["id,image", *[f"{i},{p}" for i, p in enumerate(paths)]])
        )
    run_job(images, folder / name, tmp_path / "out", columns=COLUMNS)
    table = read_output(tmp_path / "out")
    assert table["image"].to_pylist() == paths
    np.testing.assert_array_equal(vectors_of(table), expected)


def test_bad_images_are_rows_with_a_reason(
    images: LocalImages, expected: Floats, tmp_path: Path
) -> None:
    broken = [
        FILES[0],
        None,
        b"text",
        FILES[1][:300],
        FILES[0],
        encoded(picture(8, 8), "BMP"),
        FILES[4],
    ]
    run_job(images, write(tmp_path / "in.parquet", broken), tmp_path / "out", columns=COLUMNS)
    table = read_output(tmp_path / "out")
    assert table["id"].to_pylist() == [0, 4, 6]
    np.testing.assert_array_equal(vectors_of(table), expected[[0, 0, 4]])
    lines = (tmp_path / "out" / "_errors-000000.jsonl").read_text().splitlines()
    reasons = {error["id"]: error["reason"] for error in map(json.loads, lines)}
    assert reasons[1] == "image is null" and reasons.keys() == {1, 2, 3, 5}
    assert all("the image cannot be read: " in reasons[id] for id in (2, 3, 5))


def test_a_null_of_a_struct_has_a_reason(images: LocalImages, tmp_path: Path) -> None:
    path = write(tmp_path / "in.parquet", as_struct([FILES[0], None]))
    assert run_job(images, path, tmp_path / "out", columns=COLUMNS)["errors"] == 1


def test_files_that_cannot_be_read_have_a_reason(images: LocalImages, tmp_path: Path) -> None:
    paths = ["missing.png", "https://example.com/a.png", ".", "memory://a.png"]
    path = write(tmp_path / "in.parquet", paths)
    assert run_job(images, path, tmp_path / "out", columns=COLUMNS)["errors"] == 4
    lines = (tmp_path / "out" / "_errors-000000.jsonl").read_text().splitlines()
    assert all("the file cannot be read" in json.loads(line)["reason"] for line in lines)


def test_an_empty_path_has_its_own_reason(images: LocalImages, tmp_path: Path) -> None:
    path = write(tmp_path / "in.parquet", [""])
    assert run_job(images, path, tmp_path / "out", columns=COLUMNS)["errors"] == 1
    (line,) = (tmp_path / "out" / "_errors-000000.jsonl").read_text().splitlines()
    assert json.loads(line)["reason"] == "the file cannot be read: its path is empty"


def test_an_address_of_the_web_is_not_fetched(images: LocalImages) -> None:
    (image,) = images.files.read(["https://example.com/a.png"])
    assert "not fetched" in str(image[0])


def test_an_image_is_the_same_bits_in_any_batch(images: LocalImages, expected: Floats) -> None:
    assert images.files.batch == 2
    alone = LocalImages(images.model, replace(images.files, batch=1))
    for each in (images, alone):
        vectors, rejected = each.embed(alone_each([*FILES, b"?"]), lambda _: None)
        assert vectors[:5].tobytes() == expected.tobytes() and rejected.keys() == {5}


def test_the_limit_of_pixels_holds(images: LocalImages) -> None:
    small = LocalImages(images.model, replace(images.files, max_pixels=100))
    assert "the limit is 100" in small.embed(alone_each(FILES[:1]), lambda _: None)[1][0]


def test_images_that_are_decoded_at_once_are_together_within_the_limit_of_pixels() -> None:
    lock, now, most = threading.Lock(), 0, 0
    two, a_third = threading.Barrier(2), threading.Event()

    def pixels(data: bytes, _: int) -> Pixels:
        nonlocal now, most
        with lock:
            now += len(data)
            most = max(most, now)
        if now > 200:
            a_third.set()
        if data[0] < 8:  # the last one is alone
            two.wait(timeout=60)
            a_third.wait(0.1)  # it may begin
        with lock:
            now -= len(data)
        return np.full((1, 1, 3), data[0], dtype=np.uint8)

    files = ImageFiles(pixels, max_pixels=250, batch=4)
    read = [image for batch in files.read([bytes([n]) * 100 for n in range(9)]) for image in batch]
    assert [image[0, 0, 0] for image in read if not isinstance(image, str)] == [*range(9)]
    assert most == 200


class CountingPool(ThreadPoolExecutor):
    """Counts what it runs."""

    submitted = 0

    def submit(self, *call: Any, **named: Any) -> Future[Any]:
        self.submitted += 1
        return super().submit(*call, **named)


def test_files_that_cannot_be_read_are_not_fetched_again() -> None:
    with CountingPool(2) as pool:
        files = _fetched_ahead(["", b"b", "", b"d", b"e", b"f"], pool)
        for file in (*files, files[0], files[2]):  # those without an image are read twice
            with contextlib.suppress(ImageError):
                assert file() in {b"b", b"d", b"e", b"f"}
        assert pool.submitted == 6


@pytest.mark.parametrize("column", [[1, 2], [["a"], ["b"]]], ids=str)
def test_another_type_is_refused(images: LocalImages, column: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "in.parquet", column)
    with pytest.raises(BulkError, match="not images or paths; choose another with --image"):
        run_job(images, path, tmp_path / "out", columns=COLUMNS)


def test_bytes_are_no_texts(small: LocalModel, tmp_path: Path) -> None:
    path = write(tmp_path / "in.parquet", FILES)
    with pytest.raises(BulkError, match="has the type binary, not text"):
        run_job(small, path, tmp_path / "out", columns=Columns("image", "id"))


def run(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(main, ["embed", *arguments])
    assert result.exit_code == status, result.output
    return result.output


def test_the_command_embeds_images_and_resumes(
    clip_folder: Path, expected: Floats, tmp_path: Path
) -> None:
    path, out = write(tmp_path / "in.parquet", FILES), tmp_path / "out"
    common = [str(path), "-o", f"{out}/", "--model", str(clip_folder), "--image", "image"]
    common += ["--part-rows", "2", "--resume"]
    output = run(*common, "--dtype", "float32")
    assert f"5 images embedded into {out}/, 0 rows left out" in output
    assert "5 images, " in output and "images/s, 100.0%" in output
    np.testing.assert_array_equal(vectors_of(read_output(out)), expected)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    (out / "part-000001.parquet").unlink()
    run(*common)
    assert before == {path.name: path.read_bytes() for path in out.iterdir()}
    described = json.loads((out / "_manifest.json").read_text())["run"]
    assert described["columns"]["image"] == "image" and described["image_precision"] == "float32"


def test_servers_are_refused(tmp_path: Path) -> None:
    options = ["--image", "image", "--server", "http://localhost:1"]
    output = run("in.parquet", "-o", f"{tmp_path}/", *options, status=2)
    assert "--server is for texts" in output


@pytest.mark.parametrize("option", [["--column", "label"], ["--prompt", "a"]], ids=str)
def test_options_of_texts_are_refused_by_a_model_that_reads_one_image(
    option: list[str], clip_folder: Path, tmp_path: Path
) -> None:
    path = write(tmp_path / "in.parquet", FILES, label=["a"] * 5)
    command = [str(path), "-o", f"{tmp_path}/o/", "--model", str(clip_folder), "--image", "image"]
    output = run(*command, *option, status=1)
    assert f"reads images without texts; leave out {option[0]}" in output


def test_a_single_file_has_no_images(tmp_path: Path) -> None:
    output = run("in.txt", "-o", f"{tmp_path}/a.npy", "--image", "text", status=2)
    assert "--image needs a folder" in output


def test_a_model_of_texts_is_refused(small: LocalModel, tiny_bert: Any, tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "in.parquet", 3)
    model = str(tiny_bert())
    output = run(str(path), "-o", f"{tmp_path}/o/", "--model", model, "--image", "text", status=1)
    assert "reads texts only; choose a model that embeds images" in output


def test_the_image_encoder_may_be_another_model_s(
    clip_folder: Path, expected: Floats, tmp_path: Path
) -> None:
    write_bert(tmp_path / "texts", hidden_size=expected.shape[1])
    settings = Settings(
        model=str(tmp_path / "texts"),
        image_model=str(clip_folder),
        cache=tmp_path / "cache",
        device="cpu",
        dtype="float32",
    )
    images = load_local_images(settings)
    found = images.model.embedder.embed_images(FILES)
    assert np.array_equal(found, expected)
