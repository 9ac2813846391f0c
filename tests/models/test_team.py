"""Threads that compute a pass together, and find themselves on one processor."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from embedwell_models.cpu_backend.encoder import KernelEncoder
from tests.models.built import BUILT
from tests.models.cpu_backend.pair import Pair, batch

TASKS = Path("/proc/self/task")
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


def meet(encoder: KernelEncoder) -> list[list[tuple[int, set[int]]]]:
    """Start two threads of a pass on one processor, 20 times; return where they run and may run."""
    first, second = ALLOWED[:2]
    others, inputs = set(os.listdir(TASKS)), batch([12])
    encoder.vectors(inputs, ["mean"])  # which starts the second thread
    team = [str(threading.get_native_id()), *set(os.listdir(TASKS)) - others]

    def allow(processors: set[int]) -> None:
        for task in team:
            os.sched_setaffinity(int(task), processors)

    def meeting() -> list[tuple[int, set[int]]]:
        allow({first})
        encoder.vectors(inputs, ["mean"])
        allow({first, second})
        encoder.vectors(inputs, ["mean"])
        return [(processor(task), os.sched_getaffinity(int(task))) for task in team]

    with busy(second):
        return [meeting() for _ in range(20)]


@pytest.mark.skipif(len(ALLOWED) < 2, reason="on one processor there is no other to go to")
@pytest.mark.parametrize(("kernels", "dtype"), BUILT[:1])
def test_two_threads_on_one_processor_part_and_may_run_where_they_might(
    kernels: str, dtype: str
) -> None:
    encoder = Pair.of(kernels, dtype, "bert").ours
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with ThreadPoolExecutor(1) as alone:  # a thread of its own has a team of its own
            meetings = alone.submit(meet, encoder).result()
    finally:
        torch.set_num_threads(before)
    both = set(ALLOWED[:2])
    # Not of every one: the system may move a thread once more before the test looks.
    assert any({place for place, _ in threads} == both for threads in meetings)
    assert all(allowed == both for threads in meetings for _, allowed in threads)
