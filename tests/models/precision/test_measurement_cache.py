"""Tests of what a load keeps for the next one, with real loads of the default model."""

import os
from pathlib import Path
from typing import Any

import pytest

from embedwell_models import Embedder
from embedwell_models.config.model_options import DEFAULT_OPTIONS, ModelOptions
from embedwell_models.hub.sources import DEFAULT, resolve
from embedwell_models.precision.measurement_cache import MAX_FILES, LoadCache
from embedwell_models.precision.trials import Trial
from tests.conftest import Folder, precisions


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache folder that has fetched the default model."""
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / DEFAULT).symlink_to(resolve(DEFAULT))
    return folder


def kept_files(cache: Path) -> dict[str, bytes]:
    return {path.suffix: path.read_bytes() for path in (cache / "library").glob("*")}


@pytest.mark.parametrize("by_name", [True, False], ids=["a name", "a folder"])
def test_a_second_load_takes_what_the_first_chose(cache: Path, by_name: bool) -> None:
    model = DEFAULT if by_name else resolve(DEFAULT)
    first = Embedder.load(model, cache=cache)
    kept = kept_files(cache)
    second = Embedder.load(model, cache=cache)
    assert ".json" in kept and kept_files(cache) == kept
    assert (second.dtype, [*second.trials]) == (first.dtype, [*first.trials])
    assert second.fingerprint == first.fingerprint
    assert (second.embed("a text") == first.embed("a text")).all()


def test_what_is_kept_is_used(cache: Path) -> None:
    Embedder.load(DEFAULT, cache=cache)
    kept = LoadCache(cache / "library", resolve(DEFAULT, cache=cache), DEFAULT_OPTIONS)
    known = kept.read()
    assert known is not None
    other = [Trial("float32", 1.0, 1.0, 1.0), Trial("int8", 0.5, 0.5, 9.0)]
    fields = {"dtype": "float32", "fingerprint": "0123", "trials": [vars(each) for each in other]}
    kept.write_fields(fields)
    again = Embedder.load(DEFAULT, cache=cache)
    assert (again.dtype, again.fingerprint, [*again.trials]) == ("float32", "0123", other)


@pytest.mark.skipif("int8" not in precisions(), reason="int8 needs kernels for this processor")
def test_int8_is_calibrated_once(cache: Path) -> None:
    first = Embedder.load(DEFAULT, dtype="int8", cache=cache)
    assert first.input_magnitudes is not None and {".json", ".safetensors"} == {*kept_files(cache)}
    second = Embedder.load(DEFAULT, dtype="int8", cache=cache)
    assert (second.embed("a text") == first.embed("a text")).all()
    (path,) = (cache / "library").glob("*.safetensors")
    path.write_bytes(b"damaged")
    third = Embedder.load(DEFAULT, dtype="int8", cache=cache)
    assert (third.embed("a text") == first.embed("a text")).all()
    assert path.read_bytes() != b"damaged"


@pytest.mark.skipif("bfloat16" not in precisions(), reason="bfloat16 needs kernels for it")
def test_bfloat16_is_compared_with_float32_once(cache: Path) -> None:
    options = ModelOptions(dtype="bfloat16")
    first = Embedder.load(DEFAULT, dtype="bfloat16", cache=cache)
    kept = LoadCache(cache / "library", resolve(DEFAULT, cache=cache), options)
    fields = kept.read_fields()
    assert fields is not None and fields["fingerprint"] == first.fingerprint
    kept.write_fields({**fields, "trials": []})
    second = Embedder.load(DEFAULT, dtype="bfloat16", cache=cache)
    assert len(first.trials) == 2 and not second.trials
    assert (second.embed("a text") == first.embed("a text")).all()


def test_nothing_is_kept_of_float32(cache: Path) -> None:
    Embedder.load(DEFAULT, dtype="float32", cache=cache)
    assert not kept_files(cache)


def test_a_folder_that_is_written_again_is_measured_again(cache: Path, tiny_bert: Folder) -> None:
    model = tiny_bert()
    first = Embedder.load(model, cache=cache)
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\1")
    second = Embedder.load(model, cache=cache)
    assert second.fingerprint != first.fingerprint


def test_a_cache_that_cannot_be_written_keeps_nothing(tmp_path: Path, tiny_bert: Folder) -> None:
    (tmp_path / "cache").write_text("a file")
    assert Embedder.load(tiny_bert(), cache=tmp_path / "cache").dtype


def test_the_oldest_measurements_are_deleted(cache: Path, tiny_bert: Folder) -> None:
    folder, model = cache / "library", tiny_bert()
    folder.mkdir()
    for number in range(MAX_FILES):
        old = folder / f"{number}.json"
        old.touch()
        os.utime(old, (number, number))
    LoadCache(folder, model, DEFAULT_OPTIONS).write_fields({})
    assert {path.stem for path in folder.glob("*")} >= {*map(str, range(1, MAX_FILES))}
    assert not (folder / "0.json").exists()


def test_measurements_that_are_used_are_not_the_oldest(cache: Path, tiny_bert: Folder) -> None:
    folder, measured = cache / "library", LoadCache(cache / "library", tiny_bert(), DEFAULT_OPTIONS)
    measured.write_fields({"trials": []})
    [path] = folder.iterdir()
    os.utime(path, (1, 1))
    assert measured.read_fields() == {"trials": []}
    assert path.stat().st_mtime > 1


def test_measurements_are_for_the_same_files_and_options_alone(
    cache: Path, tiny_bert: Folder
) -> None:
    model = tiny_bert()

    def load(**options: Any) -> LoadCache:
        return LoadCache(cache, model, ModelOptions(**{"device": "cpu", **options}))

    load().write_fields({"dtype": "float32", "trials": [], "fingerprint": "0123"})
    assert load().read() is not None
    assert load(dtype="int8").read() is None
    assert load(adapter="retrieval").read() is None
    os.utime(model / "model.safetensors", (1, 1))
    assert load().read() is None


def test_another_versions_fields_count_as_nothing(cache: Path, tiny_bert: Folder) -> None:
    kept = LoadCache(cache, tiny_bert(), DEFAULT_OPTIONS)
    for fields in ({}, {"dtype": "float32"}, {"trials": [{"more": 1}], "dtype": "float32"}):
        kept.write_fields(fields)
        assert kept.read() is None
