"""The mark `full`: tests that are slow or redundant, which only `--full` runs."""

from collections import Counter

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the tests marked `full`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests marked `full`; of those marked `full(after=n)` keep the first n cases."""
    if config.option.full:
        return
    cases_seen: Counter[str] = Counter()
    selected: list[pytest.Item] = []
    deselected: list[pytest.Item] = []
    for item in items:
        mark = item.get_closest_marker("full")
        name = item.nodeid.split("[")[0]
        cases_seen[name] += 1
        selected_by_default = mark is None or cases_seen[name] <= mark.kwargs.get("after", 0)
        (selected if selected_by_default else deselected).append(item)
    config.hook.pytest_deselected(items=deselected)
    items[:] = selected
