"""Threads that compute a pass together, and find themselves on one processor."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from embedwell_models.cpu_backend.encoder import KernelEncoder
from embedwell_models.cpu_backend.library import team_sizing
from tests.models.built import BUILT
from tests.models.cpu_backend.pair import Pair, batch
from tests.models.threads import use_threads

TASKS = Path("/proc/self/task")
WORKER = "kernels 1"  # the name of the first thread that computes besides the calling thread
ALLOWED = sorted(os.sched_getaffinity(0))


@contextmanager
def busy(processor: int) -> Iterator[None]:
    """Keep a processor busy, so that no thread is woken there."""
    spin = (
        f"import os; os.sched_setaffinity(0, {{{processor}}}); print(flush=True)\nwhile True: pass"
    )
    with subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def processor(task: str) -> int:
    """Return the processor on which a thread runs or ran last, see proc_pid_stat(5)."""
    return int((TASKS / task / "stat").read_text().rpartition(")")[2].split()[36])


def task_of(name: str) -> str:
    """Return the id of the thread of a name."""
    [task] = [
        task for task in os.listdir(TASKS) if (TASKS / task / "comm").read_text() == f"{name}\n"
    ]
    return task


def meet(encoder: KernelEncoder) -> list[list[tuple[int, set[int]]]]:
    """Start two threads of a pass on one processor, 20 times; return where they run and may run."""
    first, second = ALLOWED[:2]
    inputs = batch([12])
    encoder.vectors(inputs, ["mean"])  # which starts the second thread
    team = [str(threading.get_native_id()), task_of(WORKER)]

    def allow(processors: set[int]) -> None:
        for task in team:
            os.sched_setaffinity(int(task), processors)

    def meeting() -> list[tuple[int, set[int]]]:
        team_sizing.cache_clear()  # a team that waits for a processor becomes smaller
        allow({first})
        encoder.vectors(inputs, ["mean"])
        allow({first, second})
        encoder.vectors(inputs, ["mean"])
        return [(processor(task), os.sched_getaffinity(int(task))) for task in team]

    try:
        with busy(second):
            return [meeting() for _ in range(20)]
    finally:
        allow(set(ALLOWED))


@pytest.mark.skipif(len(ALLOWED) < 2, reason="on one processor there is no other to go to")
@pytest.mark.parametrize(("kernels", "dtype"), BUILT[:1])
def test_two_threads_on_one_processor_part_and_may_run_where_they_might(
    kernels: str, dtype: str
) -> None:
    encoder = Pair.of(kernels, dtype, "bert").ours
    with use_threads(2):
        meetings = meet(encoder)
    both = set(ALLOWED[:2])
    # Not of every one: the system may move a thread once more before the test looks.
    assert any({place for place, _ in threads} == both for threads in meetings)
    assert all(allowed == both for threads in meetings for _, allowed in threads)
