"""Tests that need programs which are not installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import program

TEST = """
from tests.programs import program

def test_it() -> None:
    program("no-such-program", "its-package")
"""


@pytest.mark.parametrize(("option", "summary"), [((), "1 skipped"), (("--need-all",), "1 failed")])
@pytest.mark.full
def test_a_missing_program_skips_the_test_or_fails_it_with_need_all(
    tmp_path: Path, option: tuple[str, ...], summary: str
) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-rsf", "-p", "tests.programs", *option]
    process = subprocess.run(
        [*command, f"--rootdir={tmp_path}", "-c", "/dev/null", str(tmp_path)],
        cwd=Path(__file__).parent.parent,
        env={name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert summary in process.stdout
    assert "needs no-such-program: apt-get install its-package" in process.stdout


def test_an_installed_program_is_found() -> None:
    assert Path(program("python3", "python3")).is_file()
