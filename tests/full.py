"""The mark `full`: tests that are slow or redundant, which only `--full` runs."""

from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

SKIPPED = pytest.StashKey[int]()  # how many long tests were not selected
_OUTPUT_KEY = "long_tests_skipped"  # of a worker of pytest-xdist, which collects in its own process


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the tests marked `full`")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """Deselect tests marked `full`; of those marked `full(after=n)` keep the first n cases."""
    long = set() if config.option.full else _long_tests(items)
    yield  # other options deselect tests here, which are not counted as long ones
    deselected = [item for item in items if item in long]
    config.stash[SKIPPED] = len(deselected)
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if item not in long]


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
    """In a worker of pytest-xdist, send the number of skipped tests to the process of the user."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_OUTPUT_KEY] = session.config.stash.get(SKIPPED, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Receive that number; every worker collects all tests."""
    count = getattr(node, "workeroutput", {}).get(_OUTPUT_KEY, 0)
    node.config.stash[SKIPPED] = max(count, node.config.stash.get(SKIPPED, 0))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say how many long tests there are beside those that ran."""
    if count := config.stash.get(SKIPPED, 0):
        terminalreporter.write_line(f"{count} long tests skipped; run them with --full")
