"""Processor time of other processes: of one that computes, sleeps, is stopped, or has ended."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from embedwell.compute.liveness import running_seconds

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")

_TIMEOUT = 300  # seconds


@contextmanager
def program(code: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run Python code in another process until the block ends."""
    code = f"print(flush=True)\n{code}"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def wait_until_none(pid: int) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while running_seconds(pid) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_process_that_computes_has_ever_more_time() -> None:
    with program("while True: pass") as process:
        first = running_seconds(process.pid)
        assert first is not None
        deadline = time.monotonic() + _TIMEOUT
        while (later := running_seconds(process.pid)) is not None and later <= first:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert later is not None


def test_a_process_that_is_stopped_has_none() -> None:
    with program("while True: pass") as process:
        process.send_signal(signal.SIGSTOP)
        wait_until_none(process.pid)


def test_a_process_that_sleeps_or_has_ended_has_none() -> None:
    with program("import time; time.sleep(1000)") as process:
        wait_until_none(process.pid)
    assert running_seconds(process.pid) is None
