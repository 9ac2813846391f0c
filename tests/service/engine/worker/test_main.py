"""Tests of which errors of a start the next engine may not have, and of the memory it keeps."""

import gc
import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from embedwell.engine.wire.spec import EngineSpec, StartupChoices
from embedwell.engine.worker.main import StartupCache, is_transient, load_and_measure
from embedwell_models.config.model_options import ModelOptions
from embedwell_models.cpu_backend import library
from embedwell_models.errors import TORCH_MISSING, DeviceUnavailableError, ModelError
from embedwell_models.tokenizer.tokenizer import Tokenizer
from tests.conftest import COMPILED, Folder, precisions
from tests.models.image_models import SIDE, picture, write_clip_for_int8
from tests.service.server import Server


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(24, "Too many open files"),
        torch.OutOfMemoryError("CUDA out of memory"),
        torch.AcceleratorError("CUDA-capable device(s) is/are busy or unavailable"),
        DeviceUnavailableError("device 'cuda' is not available"),
    ],
    ids=repr,
)
def test_a_lack_of_memory_files_or_a_device_may_pass(error: Exception) -> None:
    assert is_transient(error)


@pytest.mark.parametrize(
    "error",
    [
        ModelError("no such model"),
        ModuleNotFoundError(TORCH_MISSING, name="torch"),
        RuntimeError("negative dimension"),
    ],
    ids=repr,
)
def test_a_fault_of_the_model_or_of_the_installation_stays(error: Exception) -> None:
    assert not is_transient(error)


def tokenizers() -> int:
    gc.collect()
    return sum(type(each) is Tokenizer for each in gc.get_objects())


@pytest.mark.parametrize("dtype", ["auto", "float32"])
def test_a_first_start_keeps_neither_the_memory_of_its_trials_nor_a_tokenizer(
    dtype: str, tiny_bert: Folder
) -> None:
    spec = EngineSpec(str(tiny_bert()), ModelOptions(device="cpu", dtype=dtype, threads=1), 0, 0, 1)
    before = tokenizers()
    embedder, _ = load_and_measure(spec)
    assert library.release_scratch() == 0
    assert tokenizers() == before
    assert embedder.tokenizer.encode(["a"])


CHOICES = StartupChoices("cpu", "int8", [], 2048, 1e5, "0123-int8", 1_790_000_000)


@pytest.fixture
def spec(tiny_bert: Folder, tmp_path: Path) -> EngineSpec:
    options, startup_cache = ModelOptions(device="cpu", threads=1), tmp_path / "cache" / "startup"
    return EngineSpec(str(tiny_bert()), options, 0, 0, 1, startup_cache=str(startup_cache))


def with_options(spec: EngineSpec, **options: Any) -> EngineSpec:
    return replace(spec, options=replace(spec.options, **options))


def kept_file(spec: EngineSpec) -> Path:
    (path,) = Path(spec.startup_cache).iterdir()
    return path


def test_a_second_start_takes_the_choices_of_the_first(
    spec: EngineSpec, caplog: pytest.LogCaptureFixture
) -> None:
    first, choices = load_and_measure(spec)
    with caplog.at_level(logging.INFO):
        second, again = load_and_measure(spec)
    assert again == choices and [*second.trials] == [*first.trials]
    assert (second.dtype, second.fingerprint) == (first.dtype, first.fingerprint)
    assert (second.encode([[1, 2, 3]]) == first.encode([[1, 2, 3]])).all()
    assert f"the model is loaded in {choices.dtype}, as measured on 20" in caplog.text


@pytest.mark.skipif("int8" not in precisions(), reason="int8 needs kernels for this processor")
def test_a_second_start_in_int8_is_not_calibrated_again(spec: EngineSpec) -> None:
    spec = with_options(spec, dtype="int8")
    first, _ = load_and_measure(spec)
    cache = StartupCache(spec)
    kept = cache.read_magnitudes()
    assert kept is not None and first.input_magnitudes is not None
    assert {name: row.tobytes() for name, row in kept.items()} == {
        name: row.tobytes() for name, row in first.input_magnitudes.items()
    }
    second, _ = load_and_measure(spec)
    assert (second.encode([[1, 2, 3]]) == first.encode([[1, 2, 3]])).all()
    cache.write_magnitudes({name: row * 9 for name, row in kept.items()})
    third, _ = load_and_measure(spec)
    assert (third.encode([[1, 2, 3]]) != first.encode([[1, 2, 3]])).any(), "it is not read"
    (path,) = Path(spec.startup_cache).glob("*.safetensors")
    path.write_bytes(path.read_bytes()[:-1])
    assert cache.read_magnitudes() is None
    fourth, _ = load_and_measure(spec)
    assert (fourth.encode([[1, 2, 3]]) == first.encode([[1, 2, 3]])).all()


def test_nothing_is_kept_if_the_setting_says_so(spec: EngineSpec) -> None:
    folder, spec = Path(spec.startup_cache), replace(spec, startup_cache="")
    StartupCache(spec).write(CHOICES)
    StartupCache(spec).write_magnitudes({})
    assert StartupCache(spec).read_magnitudes() is None
    assert StartupCache(spec).read() is None and not folder.exists()


def touched(spec: EngineSpec) -> EngineSpec:
    os.utime(Path(spec.folder) / "model.safetensors", (1, 1))
    return spec


def another_inode(spec: EngineSpec) -> EngineSpec:
    path = Path(spec.folder) / "config.json"
    shutil.copy2(path, path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)
    return spec


@pytest.mark.parametrize(
    "change",
    [
        touched,
        another_inode,
        lambda spec: with_options(spec, threads=2),
        lambda spec: with_options(spec, dtype="float32"),
        lambda spec: with_options(spec, isa="none"),
        lambda spec: with_options(spec, pooling="cls"),
        lambda spec: with_options(spec, max_batch_tokens=100),
    ],
)
def test_choices_are_for_the_same_files_and_settings_alone(
    spec: EngineSpec, change: Callable[[EngineSpec], EngineSpec]
) -> None:
    StartupCache(spec).write(CHOICES)
    assert StartupCache(spec).read() == CHOICES
    assert StartupCache(change(spec)).read() is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content.replace(b"int8", b"int9"),
        lambda content: b"",
        lambda content: b"\xff" * 100,
        lambda content: content.split(b"\n")[1],
    ],
)
def test_a_damaged_file_is_replaced(spec: EngineSpec, damage: Callable[[bytes], bytes]) -> None:
    StartupCache(spec).write(CHOICES)
    kept_file(spec).write_bytes(damage(kept_file(spec).read_bytes()))
    assert StartupCache(spec).read() is None
    StartupCache(spec).write(CHOICES)
    assert StartupCache(spec).read() == CHOICES


def test_a_folder_that_cannot_be_written_is_no_error(spec: EngineSpec) -> None:
    Path(spec.startup_cache).parent.mkdir(exist_ok=True)
    Path(spec.startup_cache).write_text("a file, not a folder")
    StartupCache(spec).write(CHOICES)
    assert StartupCache(spec).read() is None


def test_a_model_whose_files_have_gone_keeps_nothing(spec: EngineSpec) -> None:
    (Path(spec.folder) / "link").symlink_to("nowhere")
    StartupCache(spec).write(CHOICES)
    assert StartupCache(spec).read() is None


@pytest.mark.full
def test_a_server_tells_when_its_choices_were_measured(tiny_bert: Folder, tmp_path: Path) -> None:
    cache, model = tmp_path / "cache", tiny_bert(**COMPILED)
    settings: dict[str, Any] = {"startup_cache": True, "cache": cache, "model": model}
    settings |= {"dtype": "auto"}
    engines, logs = [], []
    for name in ("first", "second"):
        with Server(tmp_path / name, **settings) as server:
            server.wait_ready()
            engines.append(server.client.get("/info").json()["engine"])
            logs.append(server.log)
    assert engines[0] == engines[1] and engines[0]["measured_at"] > 1_700_000_000
    assert ["as measured on" in log for log in logs] == [False, True]
    assert len([*(cache / "startup").glob("*.json")]) == 1


@pytest.mark.skipif("int8" not in precisions(), reason="int8 needs kernels for this processor")
def test_a_second_start_does_not_try_the_precision_of_images_again(
    spec: EngineSpec, tmp_path: Path
) -> None:
    write_clip_for_int8(tmp_path / "clip")
    spec = replace(with_options(spec, dtype="int8"), folder=str(tmp_path / "clip"))
    first, choices = load_and_measure(spec)
    images = [np.asarray(picture(SIDE, SIDE))]
    assert choices.image_dtype == first.image_dtype == "int8"
    second, _ = load_and_measure(spec)
    assert (second.encode_images(images) == first.encode_images(images)).all()
    cache = StartupCache(spec)
    kept = cache.read_magnitudes()
    assert kept is not None
    name = "images.layers.0.up"
    cache.write_magnitudes({**kept, name: kept[name][::-1].copy() ** 3})
    third, _ = load_and_measure(spec)
    assert (third.encode_images(images) != first.encode_images(images)).any(), "it is not read"
