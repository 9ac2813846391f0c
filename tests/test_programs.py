"""Tests of skipping, and of refusing to skip, what needs a program that is not installed."""

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


@pytest.mark.parametrize(("option", "outcome"), [((), "1 skipped"), (("--need-all",), "1 failed")])
@pytest.mark.full
def test_a_missing_program_skips_its_test_unless_all_are_needed(
    tmp_path: Path, option: tuple[str, ...], outcome: str
) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-rsf", "-p", "tests.programs", *option]
    done = subprocess.run(
        [*command, f"--rootdir={tmp_path}", "-c", "/dev/null", str(tmp_path)],
        cwd=Path(__file__).parent.parent,
        env={name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome in done.stdout
    assert "needs no-such-program: apt-get install its-package" in done.stdout


def test_a_program_of_this_machine_is_found() -> None:
    assert Path(program("python3", "python3")).is_file()
