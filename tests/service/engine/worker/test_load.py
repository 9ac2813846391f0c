"""Tests of how the engine loads its model."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from embedwell.engine.worker.load import load
from embedwell_models.config.model_options import ModelOptions
from embedwell_models.cpu_backend import library
from embedwell_models.encoder.threads import process_thread_count, set_thread_count
from tests.conftest import COMPILED, Folder
from tests.models.tiny import write_static_model

ROOT = Path(__file__).parents[4]


@pytest.fixture
def threads() -> Iterator[None]:
    """Restore the number of threads, which a load sets."""
    before = process_thread_count()
    yield
    set_thread_count(before)


OPTIONS = ModelOptions(device="cpu", dtype="float32", threads=1)


def test_a_pooling_that_is_assumed_is_logged(
    tiny_bert: Folder, threads: None, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tiny_bert()
    load(folder, OPTIONS)
    assert f"{folder} states no pooling: mean is assumed" in caplog.text
    caplog.clear()
    assert load(folder, replace(OPTIONS, pooling="cls")).recipe.pooling == ("cls",)
    assert "pooling" not in caplog.text


def test_a_pooling_without_the_file_that_lists_it_is_logged(
    tiny_bert: Folder, threads: None, caplog: pytest.LogCaptureFixture
) -> None:
    pooling = tiny_bert() / "1_Pooling"
    pooling.mkdir()
    (pooling / "config.json").write_text('{"pooling_mode_cls_token": true}')
    load(pooling.parent, OPTIONS)
    message = "config.json has no effect without modules.json: copy the whole model"
    assert f"{pooling / message}" in caplog.text


def test_a_load_sets_the_number_of_threads(tiny_bert: Folder, threads: None) -> None:
    folder = tiny_bert()
    for count in (2, 1):
        load(folder, replace(OPTIONS, threads=count))
        assert process_thread_count() == torch.get_num_threads() == count


@pytest.mark.full
def test_a_package_without_kernels_says_so_and_what_to_do(
    tiny_bert: Folder, tmp_path: Path
) -> None:
    table, encoder = write_static_model(tmp_path), tiny_bert(**COMPILED)
    for folder in ("models", "service"):
        without = shutil.ignore_patterns("*.so", "compile.log", "__pycache__")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=without)
    path = f"{tmp_path}/models:{tmp_path}/service"

    def logs_of(model: Path = encoder, **environment: str) -> str:
        arguments = ["-m", "embedwell", "info", "--model", str(model), "--device", "cpu"]
        process = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        assert '"kernels": null' in process.stdout
        return process.stderr

    warned = logs_of(EMBEDWELL_ISA="auto")
    if library.processor_has_kernels():
        assert "SLOW: this package has no compiled kernels" in warned and "make kernels" in warned
        assert "compile.log" not in warned
        (tmp_path / "models/embedwell_models/kernels/compile.log").write_text(
            "there is no C++ compiler"
        )
        assert f"output is in {tmp_path}/models/embedwell_models/kernels/compile.log" in logs_of(
            EMBEDWELL_ISA="auto"
        )
    else:
        assert "SLOW: there are no compiled kernels for this processor" in warned
    assert "kernels" not in logs_of(EMBEDWELL_ISA="none"), "kernels are disabled"
    assert "kernels" not in logs_of(table, EMBEDWELL_ISA="auto"), "a table needs none"
