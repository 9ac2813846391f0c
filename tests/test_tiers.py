"""Selection of tests by the marks `full` and `needs`, and by the packages that are installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import quick_selection
from tests.tiers import imports

TEST = """
import pytest

@pytest.mark.full
def test_long() -> None: ...

@pytest.mark.parametrize("case", range(5))
@pytest.mark.full(after=2)
def test_each(case: int) -> None: ...

@pytest.mark.parametrize("case", range(3))
def test_unmarked(case: int) -> None: ...

def test_quick() -> None: ...
"""


LACKING = """
import pytest

@pytest.mark.needs("no_such_package")
def test_lacking() -> None: ...

@pytest.mark.needs("pytest")
def test_having() -> None: ...
"""

STARTING = """
import subprocess, sys
import pytest

def start() -> None:
    subprocess.run([sys.executable, "-m", "ruff", "--version"])

def test_quick() -> None:
    start()

@pytest.mark.full
def test_long() -> None:
    start()

@pytest.mark.needs("ruff")
def test_marked() -> None:
    start()
"""


def run(folder: Path, *options: str) -> str:
    """The output of pytest over the files of a folder, without most plugins."""
    command = [sys.executable, "-m", "pytest", "-p", "xdist", "-p", "tests.tiers", *options]
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    process = subprocess.run(
        [*command, f"--rootdir={folder}", "-c", "/dev/null", str(folder)],
        cwd=Path(__file__).parent.parent,
        env={**environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return process.stdout


@pytest.mark.parametrize(
    ("options", "summary", "skipped"),
    [
        ((), "6 passed, 4 deselected", 4),
        (("-n", "2"), "6 passed", 4),
        (("-k", "long or quick"), "1 passed, 9 deselected", 1),
        (("--full",), "10 passed", 0),
        (("--quick",), "5 passed, 5 deselected", 5),
    ],
)
@pytest.mark.full
def test_only_the_first_cases_run_without_the_option(
    tmp_path: Path, options: tuple[str, ...], summary: str, skipped: int
) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    output = run(tmp_path, *options)
    assert summary in output
    hint = f"`make check` has more: {skipped} tests"
    assert (hint in output) == (skipped > 0)


@pytest.mark.parametrize("options", [(), ("-n", "2")])
@pytest.mark.full
def test_tests_whose_packages_are_missing_are_not_collected(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    (tmp_path / "test_import.py").write_text("import no_such_package")
    (tmp_path / "test_nested.py").write_text("def test_it() -> None:\n    import no_such_package")
    (tmp_path / "test_mark.py").write_text(LACKING)
    output = run(tmp_path, *options)
    assert "1 passed" in output and "error" not in output
    assert "`make check` has more: 1 tests and 2 files" in output
    output = run(tmp_path, *options, "-p", "tests.programs", "--need-all")
    assert "1 error" in output and "has more" not in output


@pytest.mark.full
def test_a_quick_test_that_starts_a_program_of_another_package_fails(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(STARTING)
    output = run(tmp_path, "--full", "-p", "tests.quick_programs")
    assert (
        "1 failed" in output and "test_quick - Failed: `make test` does not install ruff" in output
    )
    assert "2 passed" in output or "1 passed, 1 deselected" in output, "without ruff"


def test_what_make_test_leaves_out_are_files_of_tests() -> None:
    folder = Path(__file__).parent
    for patterns in quick_selection.LEFT_OUT.values():
        for pattern in patterns:
            assert any(path.suffix == ".py" for path in folder.glob(pattern)), pattern
    kernels = (folder / "models/cpu_backend/test_library.py").read_text(encoding="utf-8")
    assert all(f"def {name}(" in kernels for name in quick_selection.OF_ALL_KERNELS)
    assert quick_selection.is_left_out(folder / "models/rare/test_xmod.py")
    assert quick_selection.is_left_out(folder / "service/bulk/ray/test_dataset.py")
    assert not quick_selection.is_left_out(folder / "models/families/test_bert.py")
    assert not quick_selection.is_left_out(Path(__file__))


def test_the_packages_of_a_helper_are_those_of_the_test() -> None:
    test = Path(__file__).parent / "service" / "test_older_encoders.py"
    assert "h5py" not in test.read_text() and "h5py" in imports(test)


def test_the_packages_of_an_example_are_those_of_its_test() -> None:
    assert "psycopg" in imports(Path(__file__).parent / "examples" / "test_hybrid_search.py")
