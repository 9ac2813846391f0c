"""Fixtures of the tests of processes and signals."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _default_hangup() -> Iterator[None]:
    """Let child processes handle SIGHUP by default, also where `nohup` started the tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
