"""Two tiers of tests: `make test` runs quick ones with few packages, `make check` all.

`--quick`, which `make test` gives, runs the first cases of each test, and not the files that
`quick_selection` lists. The mark `full` is for tests that are slow or redundant, which only
`--full` runs. The mark `needs` names packages that a test uses in another process. Packages that a
test file imports, itself or by way of this project's modules, are found by its imports.
"""

import ast
import functools
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Set
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests import quick_selection

ROOT = Path(__file__).parent.parent
ROOTS = {  # the folders of the project's own packages
    **dict.fromkeys(("benchmarks", "deploy", "docs", "examples", "tests"), ROOT),
    **{
        path.name: path.parent
        for folder in ("models", "service")
        for path in (ROOT / folder).glob("embedwell*")
    },
}
SKIPPED = pytest.StashKey[Counter[str]]()  # how many tests or files were not selected
_QUICK = pytest.StashKey[set[pytest.Item]]()  # the tests that `--quick` would select
_OUTPUT_KEY = "tests_not_selected"  # of a worker of pytest-xdist, which collects in its own process


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the tests marked `full`")
    parser.addoption("--quick", action="store_true", help="run what breaks most often, for minutes")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SKIPPED] = Counter()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore test files that import packages which are not installed, but not with --need-all.

    So is a folder of tests whose conftest.py imports one; with --quick, files that it leaves out.
    """
    is_test = collection_path.is_file() and collection_path.match("test_*.py")
    if config.option.quick and is_test and quick_selection.is_left_out(collection_path):
        config.stash[SKIPPED]["files"] += 1
        return True
    if config.getoption("need_all", False):
        return None
    is_folder = collection_path.is_dir()
    source = collection_path / "conftest.py" if is_folder else collection_path
    if not (source.is_file() and (is_folder or source.match("test_*.py")) and missing(source)):
        return None
    files = [*collection_path.rglob("test_*.py")] if is_folder else [source]
    config.stash[SKIPPED]["files"] += len(files)
    return True


def missing(path: Path) -> set[str]:
    """Modules that a test file, its helpers or the product import, and that are not installed."""
    return {module for module in imports(path) if not _is_installed(module)}


def imports(path: Path) -> set[str]:
    """The modules of other projects that are imported when a test file is run."""
    others, seen, waiting = set[str](), {path}, [path]
    while waiting:
        modules, files = _imports_of_file(waiting.pop())
        others |= modules
        waiting += files - seen
        seen |= files
    return others


@functools.cache
def _imports_of_file(path: Path) -> tuple[set[str], set[Path]]:
    """The modules of other projects, and the files of this one, that a file imports."""
    sources = {module: _source(module) for module in _imported_modules(path)}
    files = {file for file in sources.values() if file is not None and file.is_file()}
    others = {module for module, file in sources.items() if file is None}
    return others, {file for file in files if file.name != "conftest.py"}


def _source(module: str) -> Path | None:
    """The file that a module of this project has, or nothing; None for modules of others."""
    folder = ROOTS.get(module.partition(".")[0])
    if folder is None:
        return None
    path = folder / module.replace(".", "/")
    return path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"


def _imported_modules(path: Path) -> set[str]:
    """Modules that a file imports: in tests everywhere, in the product when it is imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    of_product = path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "tests")
    modules = set[str]()
    for node in tree.body if of_product else _statements(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
            if node.module.partition(".")[0] in ROOTS:  # a name may be that of a module
                modules |= {f"{node.module}.{alias.name}" for alias in node.names}
    standard = sys.stdlib_module_names
    return {name for name in modules if name.partition(".")[0] not in standard}


def _statements(parent: ast.AST) -> Iterator[ast.AST]:
    """The statements below a node, without their expressions, which are most of the nodes."""
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        for node in getattr(parent, name, ()):
            yield node
            yield from _statements(node)


@functools.cache
def _is_installed(module: str) -> bool:
    top = find_spec(module.partition(".")[0])
    if top is None or top.origin is not None:
        return top is not None
    try:  # a folder that several distributions share
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """Deselect tests marked `full` or `needs`; of those marked `full(after=n)` keep n cases."""
    quick = config.stash[_QUICK] = _quick_tests(items)
    long = set() if config.option.full else _long_tests(items, sys.maxsize)
    if config.option.quick:
        long |= {*items} - quick
    if not config.getoption("need_all", False):
        long |= {item for item in items if _lacks_packages(item)}
    yield  # other options deselect tests here, which are not counted
    deselected = [item for item in items if item in long]
    config.stash[SKIPPED]["tests"] += len(deselected)
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if item not in long]


def is_quick(item: pytest.Item, modules: Set[str]) -> bool:
    """Whether `make test` runs a test if it installs these modules."""
    used = {name.partition(".")[0] for name in imports(item.path).union(_needs(item))}
    return item in item.config.stash[_QUICK] and used <= modules


def _quick_tests(items: list[pytest.Item]) -> set[pytest.Item]:
    others = {item for item in items if item.name in quick_selection.OF_ALL_KERNELS}
    others |= {item for item in items if quick_selection.is_left_out(item.path)}
    return {*items} - others - _long_tests(items, quick_selection.CASES)


def _lacks_packages(item: pytest.Item) -> bool:
    return not all(map(_is_installed, _needs(item)))


def _needs(item: pytest.Item) -> list[str]:
    return [name for mark in item.iter_markers("needs") for name in mark.args]


def _long_tests(items: list[pytest.Item], cases: int) -> set[pytest.Item]:
    cases_seen: Counter[str] = Counter()
    long: set[pytest.Item] = set()
    for item in items:
        mark = item.get_closest_marker("full")
        name = item.nodeid.split("[")[0]
        cases_seen[name] += 1
        most = cases if mark is None else mark.kwargs.get("after", 0)
        if cases_seen[name] > most:
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
    """Say how many tests there are besides those that ran, and of what."""
    skipped = config.stash[SKIPPED]
    if more := [f"{skipped[kind]} {kind}" for kind in ("tests", "files") if skipped[kind]]:
        line = f"`make check` has more: {' and '.join(more)}"
        if config.option.quick:
            line = (
                "Tested: the common families, tokenizers, kernels, the server and its routes. "
                f"{line}, which test more cases, and {', '.join(quick_selection.LEFT_OUT)}"
            )
        terminalreporter.write_line(line)
