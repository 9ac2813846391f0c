"""External programs that some tests need and that pip does not install."""

import os
import shutil
from collections.abc import Generator

import pytest


def program(name: str, package: str) -> str:
    """The path of a program; skips the test if it is not installed."""
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if path is None:
        pytest.skip(f"needs {name}: apt-get install {package}")
    return path


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--need-all",
        action="store_true",
        help="fail the tests whose programs are not installed, instead of skipping them",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Under --need-all, turn a skip whose reason begins with "needs" into a failure."""
    report = yield
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    if item.config.option.need_all and reason.startswith("Skipped: needs "):
        report.outcome = "failed"
    return report
