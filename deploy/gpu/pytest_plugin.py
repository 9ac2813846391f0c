"""A plugin of pytest that keeps each outcome at once, and restarts workers whose GPU is unusable.

The results are in tests.jsonl. Quick modules come first, so that a limit of time cuts off the slow.
"""

import json
import os
from collections.abc import Generator

import pytest

from deploy.gpu.results import OUT

_FIRST = ("attention", "graphs", "server", "memory", "parity", "ahead")
_UNUSABLE = (
    *("CUDA error", "AcceleratorError", "device-side assert"),
    *("CUBLAS_STATUS", "illegal memory"),
)
_REASON_LENGTH = 700

_unusable = pytest.StashKey[bool]()


def _order(item: pytest.Item) -> tuple[bool, int]:
    module = item.path.stem.removeprefix("test_")
    return "every_family" in item.name, _FIRST.index(module) if module in _FIRST else -1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_order)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Notice errors after which no other test of this process can use the GPU."""
    report = yield
    if call.excinfo is not None and any(sign in repr(call.excinfo.value) for sign in _UNUSABLE):
        item.config.stash[_unusable] = True
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """End a worker of pytest-xdist whose GPU is unusable: the test is reported, another starts."""
    if item.config.stash.get(_unusable, False) and "PYTEST_XDIST_WORKER" in os.environ:
        os._exit(3)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Append each outcome, in the process that receives all of them."""
    if "PYTEST_XDIST_WORKER" in os.environ or (report.when != "call" and report.passed):
        return
    line: dict[str, object] = {
        "test": report.nodeid,
        "outcome": report.outcome,
        "seconds": round(report.duration, 2),
    }
    if report.failed:
        line["why"] = str(report.longrepr).strip()[-_REASON_LENGTH:]
    with (OUT / "tests.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
