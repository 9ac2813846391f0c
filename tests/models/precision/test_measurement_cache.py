"""Tests of what a load by name keeps for the next one, with real loads of the default model."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from embedwell_models import Embedder
from embedwell_models.hub.sources import DEFAULT, resolve
from embedwell_models.model_options import DEFAULT_OPTIONS, ModelOptions
from embedwell_models.precision.measurement_cache import LoadCache
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


def test_a_second_load_by_name_takes_what_the_first_chose(cache: Path) -> None:
    first = Embedder.load(DEFAULT, cache=cache)
    kept = kept_files(cache)
    second = Embedder.load(DEFAULT, cache=cache)
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


@pytest.mark.parametrize(
    "load",
    [
        lambda cache, folder: Embedder.load(DEFAULT, dtype="float32", cache=cache),
        lambda cache, folder: Embedder.load(folder, cache=cache),
    ],
    ids=["float32", "a folder"],
)
def test_nothing_else_is_kept(
    cache: Path, tiny_bert: Folder, load: Callable[[Path, Path], Embedder]
) -> None:
    load(cache, tiny_bert())
    assert not kept_files(cache)


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
