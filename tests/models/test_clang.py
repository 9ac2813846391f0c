"""The kernels compiled by clang, and tested as those of this checkout are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from embedwell_models.cpu_backend.library import ISAS, features, kernels_missing
from hatch_build import (
    FLAGS,
    TARGETS,
    THREAD_FLAGS,
    THREAD_SOURCES,
    THREADS,
    compiler,
    source_checksum,
    target,
)
from tests.models.checkout_copy import compile_copy, copy_checkout
from tests.programs import program

TESTS = ["cpu_backend", "test_team.py", "torch_backend/test_linear.py"]


@pytest.mark.compiler
def test_kernels_that_clang_compiled_pass_their_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, package in (("clang++", "clang"), ("ld", "binutils")):
        (programs / name).symlink_to(program(name, package))
    copy_checkout(tmp_path)
    kernels = tmp_path / "models" / "embedwell_models" / "kernels"
    with monkeypatch.context() as with_clang_alone:
        with_clang_alone.delenv("CXX", raising=False)
        with_clang_alone.setenv("PATH", str(programs))
        # Those for the matrix unit are GCC's alone.
        isas = [name for name in TARGETS[target(compiler())] if name != "amx"]
        usable = [name for name in isas if ISAS[name] <= features()]
        # What the optimizer may break is in the code that those which are alike share: the
        # simplest of all, and the best, which has every precision.
        optimized = usable[:1] + usable[1:][-1:]
        output = compile_copy(kernels, isas, optimized)
    assert "warning:" not in output
    assert not kernels_missing(folder=kernels), "this processor could use them, and cannot"
    for name in {*isas} - {*optimized}:  # slow, and not what is tested
        (kernels / f"libencoder-{name}.so").unlink()
    assert " passed" in run_tests(tmp_path, *TESTS)


@pytest.mark.compiler
def test_threads_pass_their_tests_where_the_system_has_no_futex(tmp_path: Path) -> None:
    copy_checkout(tmp_path)
    kernels = tmp_path / "models" / "embedwell_models" / "kernels"
    command = [*(compiler() or [program("c++", "g++")]), *FLAGS, *THREAD_FLAGS, "-DWITHOUT_FUTEX"]
    checksum = f"-DSOURCE_CHECKSUM={source_checksum(kernels)}"
    subprocess.run([*command, checksum, *THREAD_SOURCES, "-o", THREADS], cwd=kernels, check=True)
    said = run_tests(tmp_path, "cpu_backend/test_thread_pool.py")
    assert " passed" in said and "skipped" not in said


def run_tests(checkout: Path, *names: str) -> str:
    """Run some tests of models/, all of which pass; return the output of pytest."""
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "--color=no"),
            "--ignore=tests/models/cpu_backend/test_library.py",  # of the loader, in Python
            *(f"tests/models/{name}" for name in names),
        ],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": f"{checkout}/models:{checkout}/service"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-5000:]
    return run.stdout
