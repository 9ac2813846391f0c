"""Tests of which kernels are taken, and of what there is without them."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from models.isa import FOLDER, ISAS, best, unbuilt
from tests.models.built import BUILT


def test_the_best_instruction_set_of_a_processor_is_chosen() -> None:
    # Without a compiler at installation there is none to choose.
    assert best("float32", ISAS["avx2"]) == ("avx2" if BUILT else None)
    assert best("float32", ISAS["avx2"] | ISAS["avx512"]) == ("avx512" if BUILT else None)
    assert best("bfloat16", ISAS["avx2"] | ISAS["avx512"]) is None
    assert best("float32", frozenset()) is None


def test_a_processor_that_kernels_would_suit_lacks_them(tmp_path: Path) -> None:
    assert unbuilt(ISAS["avx2"] | ISAS["avx512"], tmp_path)
    assert not unbuilt(frozenset({"avx2"}), tmp_path), "there are none for it"
    assert unbuilt(ISAS["avx2"]) == (not BUILT)


def test_where_there_is_a_compiler_the_kernels_are_built() -> None:
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    able = compiler and sys.platform == "linux" and platform.machine() == "x86_64"
    for name, newest in (("avx2", "-mavx2"), ("amx", "-mamx-bf16")):
        command = [str(compiler), newest, "-E", "-x", "c++", os.devnull]
        if able and subprocess.run(command, capture_output=True, check=False).returncode == 0:
            hint = "the package was installed without this compiler: make clean, then again"
            assert (FOLDER / f"libencoder-{name}.so").exists(), hint


def test_libraries_that_are_missing_or_broken_are_done_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert best("float32", ISAS["avx2"], tmp_path) is None
    (tmp_path / "libencoder-avx2.so").write_text("this is no library")
    assert best("int8", ISAS["avx2"], tmp_path) is None
    assert "kernels for avx2 are not used" in caplog.text
