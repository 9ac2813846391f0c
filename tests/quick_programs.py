"""Quick tests may start programs of those packages alone that `make test` installs.

`make check` runs them where all packages are; there this fails a test that starts, say, ruff.
"""

import functools
import re
import shutil
import sys
import tomllib
from collections.abc import Generator, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests import tiers

BIN = Path(sys.executable).parent
_MODULE = re.compile(r"^([\w-]+)(?:/|\.py,)", re.MULTILINE)  # these two: lines of RECORD
_PROGRAM = re.compile(r"^(?:\.\./)+bin/([^,]+)", re.MULTILINE)
_current: list[pytest.Item] = []  # the test that is running


def pytest_configure() -> None:
    sys.addaudithook(_check)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Remember which test is running."""
    _current[:] = [item]
    try:
        return (yield)
    finally:
        _current.clear()


def _check(event: str, arguments: tuple[Any, ...]) -> None:
    """Fail a quick test that starts a program which `make test` does not install."""
    if event != "subprocess.Popen" or not _current:
        return
    name = lacking(str(arguments[0]), [str(each) for each in arguments[1]])
    if name and tiers.is_quick(_current[0], modules()):
        pytest.fail(f'`make test` does not install {name}: mark this test with needs("{name}")')


def lacking(executable: str, command: Sequence[str]) -> str | None:
    """The program or module of a command, if it is of a package that `make test` lacks."""
    path = Path(shutil.which(executable) or executable)
    if path.parent != BIN or sys.prefix == sys.base_prefix:  # the system's own are there, too
        return None
    if not path.name.startswith("python"):
        return None if path.name in programs() else path.name
    if "-m" not in command[:-1]:
        return None
    module = command[command.index("-m") + 1].partition(".")[0]
    known = module in sys.stdlib_module_names or module in tiers.ROOTS or module in modules()
    return None if known else module


@functools.cache
def modules() -> frozenset[str]:
    """The modules and packages that `make test` installs."""
    return frozenset(_MODULE.findall(_records()))


@functools.cache
def programs() -> frozenset[str]:
    """The programs that `make test` installs next to Python."""
    return frozenset({*_PROGRAM.findall(_records()), *_project()["scripts"]})


@functools.cache
def _records() -> str:
    """The lists of files of what the project requires, with its extras `torch` and `test`."""
    extras = _project()["optional-dependencies"]
    records = ""
    wanted = _wanted([*_project()["dependencies"], *extras["torch"], *extras["test"]], "")
    for name, extra in wanted:  # grows
        try:
            installed = distribution(name)
        except PackageNotFoundError:  # as torch, in the tests without it
            continue
        records += installed.read_text("RECORD") or ""
        wanted += [each for each in _wanted(installed.requires or (), extra) if each not in wanted]
    return records


def _wanted(lines: Iterable[str], extra: str) -> list[tuple[str, str]]:
    """The distributions in a list, each without extras and with each of its extras."""
    return [
        (each.name, own)
        for each in map(Requirement, lines)
        if each.marker is None or each.marker.evaluate({"extra": extra})
        for own in ("", *each.extras)
    ]


@functools.cache
def _project() -> dict[str, Any]:
    text = (tiers.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project: dict[str, Any] = tomllib.loads(text)["project"]
    return project
