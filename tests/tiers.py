"""Two tiers of tests: `make test` runs quick ones with few packages, `make check` all.

The mark `full` is for tests that are slow or redundant, which only `--full` runs. The mark `needs`
names packages that a test uses in another process. Packages that a test file imports, itself or
by way of a helper in this folder, are found by its imports.
"""

import ast
import functools
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
SKIPPED = pytest.StashKey[Counter[str]]()  # how many tests or files were not selected
_OUTPUT_KEY = "tests_not_selected"  # of a worker of pytest-xdist, which collects in its own process


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the tests marked `full`")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SKIPPED] = Counter()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore a test file that imports a package which is not installed, but not with --need-all."""
    is_test_file = collection_path.match("test_*.py")
    if config.getoption("need_all", False) or not is_test_file or not missing(collection_path):
        return None
    config.stash[SKIPPED]["files"] += 1
    return True


def missing(path: Path) -> set[str]:
    """Packages that a test file or its helpers import, and that are not installed."""
    return {package for package in packages(path) if not _is_installed(package)}


@functools.cache
def packages(path: Path) -> frozenset[str]:
    found: set[str] = set()
    for module in _imported_modules(path):
        top = module.partition(".")[0]
        if top != "tests":
            found.add(top)
            continue
        for helper in ROOT / f"{module.replace('.', '/')}.py", _parent_file(module):
            if helper.is_file() and helper != path and not helper.match("conftest.py"):
                found |= packages(helper)
    return frozenset(found - sys.stdlib_module_names)


def _parent_file(module: str) -> Path:
    return ROOT / f"{module.rpartition('.')[0].replace('.', '/')}.py"


def _imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@functools.cache
def _is_installed(package: str) -> bool:
    return find_spec(package) is not None


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """Deselect tests marked `full` or `needs`; of those marked `full(after=n)` keep n cases."""
    long = set() if config.option.full else _long_tests(items)
    if not config.getoption("need_all", False):
        long |= {item for item in items if _lacks_packages(item)}
    yield  # other options deselect tests here, which are not counted
    deselected = [item for item in items if item in long]
    config.stash[SKIPPED]["tests"] += len(deselected)
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if item not in long]


def _lacks_packages(item: pytest.Item) -> bool:
    packages = [name for mark in item.iter_markers("needs") for name in mark.args]
    return not all(map(_is_installed, packages))


def _long_tests(items: list[pytest.Item]) -> set[pytest.Item]:
    cases_seen: Counter[str] = Counter()
    long: set[pytest.Item] = set()
    for item in items:
        mark = item.get_closest_marker("full")
        name = item.nodeid.split("[")[0]
        cases_seen[name] += 1
        if mark is not None and cases_seen[name] > mark.kwargs.get("after", 0):
            long.add(item)
    return long


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a worker of pytest-xdist, send the numbers to the process of the user."""
    if hasattr(session.config, "workeroutput"):
        counts = session.config.stash[SKIPPED]
        session.config.workeroutput[_OUTPUT_KEY] = dict(counts)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Receive the numbers; every worker collects all tests."""
    counts = Counter[str](getattr(node, "workeroutput", {}).get(_OUTPUT_KEY, {}))
    node.config.stash[SKIPPED] = node.config.stash[SKIPPED] | counts


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say how many tests there are beside those that ran."""
    skipped = config.stash[SKIPPED]
    if more := [f"{skipped[kind]} {kind}" for kind in ("tests", "files") if skipped[kind]]:
        terminalreporter.write_line(f"`make check` has more: {' and '.join(more)}")
