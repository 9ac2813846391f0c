"""The kernels compiled by clang, and tested as those of this checkout are."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from embedwell_models.cpu_backend.library import kernels_missing
from hatch_build import LOG, TARGETS, compile_kernels, compiler, libraries, target
from tests.programs import program

ROOT = Path(__file__).parents[2]
TESTS = ["cpu_backend", "test_team.py", "torch_backend/test_linear.py"]


@pytest.mark.compiler
def test_kernels_that_clang_compiled_pass_their_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", program("clang++", "clang"))
    for folder in ("models", "service", "tests"):
        without = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=without)
    for name in ("pyproject.toml", "hatch_build.py", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    kernels = tmp_path / "models" / "embedwell_models" / "kernels"
    built, said = compile_kernels(kernels), (kernels / LOG).read_text()
    isas = TARGETS[target(compiler())]
    # Those for the matrix unit are GCC's alone.
    assert built == libraries([name for name in isas if name != "amx"]), said
    assert "warning:" not in said
    assert not kernels_missing(folder=kernels), "this processor could use them, and cannot"
    command = [sys.executable, "-m", "pytest", "-q", "--color=no"]
    found = subprocess.run(
        [*command, *(f"tests/models/{name}" for name in TESTS)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}/models:{tmp_path}/service"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-5000:]
