"""Selection of tests by the mark `full`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TEST = """
import pytest

@pytest.mark.full
def test_long() -> None: ...

@pytest.mark.parametrize("case", range(5))
@pytest.mark.full(after=2)
def test_each(case: int) -> None: ...

def test_quick() -> None: ...
"""


@pytest.mark.parametrize(
    ("options", "summary", "skipped"),
    [
        ((), "3 passed, 4 deselected", 4),
        (("-n", "2"), "3 passed", 4),
        (("-k", "long or quick"), "1 passed, 6 deselected", 1),
        (("--full",), "7 passed", 0),
    ],
)
@pytest.mark.full
def test_only_the_first_cases_run_without_the_option(
    tmp_path: Path, options: tuple[str, ...], summary: str, skipped: int
) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-p", "tests.full", *options]
    process = subprocess.run(
        [*command, f"--rootdir={tmp_path}", "-c", "/dev/null", str(tmp_path)],
        cwd=Path(__file__).parent.parent,
        env={name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert summary in process.stdout
    hint = f"{skipped} long tests skipped; run them with --full"
    assert (hint in process.stdout) == (skipped > 0)
