"""Which programs a quick test may start."""

import sys

import pytest

from tests.quick_programs import BIN, lacking
from tests.tiers import ROOT


@pytest.mark.parametrize(
    "command",
    [
        ["pytest", "-q"],
        ["-m", "pytest"],
        ["-m", "hatchling", "build"],
        ["-m", "pip", "install", "ruff"],
        ["-m", "embedwell.__main__", "serve"],
        ["-m", "http.server"],
        ["-c", "import ruff"],
        ["embedwell", "serve"],
    ],
)
def test_programs_of_the_quick_tests_are_not_refused(command: list[str]) -> None:
    if command[0].startswith("-"):
        command = [sys.executable, *command]
    assert lacking(str(BIN / command[0]), command) is None


def test_programs_of_other_packages_are_refused() -> None:
    assert lacking(sys.executable, [sys.executable, "-m", "ruff", "format"]) == "ruff"
    assert lacking(str(BIN / "ruff"), ["ruff", "check"]) == "ruff"
    assert lacking(str(BIN / "mkdocs"), ["mkdocs", "build"]) == "mkdocs"


def test_programs_of_the_system_are_not_refused() -> None:
    assert lacking("git", ["git", "status"]) is None
    assert lacking(str(ROOT / ".ci" / "run"), []) is None
