"""Tests that take long, or repeat what a quicker one shows: only `--full` runs all of them."""

from collections import Counter

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the tests marked `full`, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests marked `full`.

    Of one marked `full(after=n)` the first n cases stay.
    """
    if config.option.full:
        return
    cases: Counter[str] = Counter()
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        mark = item.get_closest_marker("full")
        name = item.nodeid.split("[")[0]
        cases[name] += 1
        quick = mark is None or cases[name] <= mark.kwargs.get("after", 0)
        (chosen if quick else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = chosen
