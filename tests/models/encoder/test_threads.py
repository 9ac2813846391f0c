"""Tests of the number of threads, and of passes that run at once on a thread each."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from embedwell_models.embedder import Embedder
from embedwell_models.encoder.cpus import available_cpus
from embedwell_models.encoder.threads import (
    TeamSizing,
    process_thread_count,
    set_thread_count,
    single_threaded,
    thread_count,
)
from tests.models.threads import use_threads

CPUS = available_cpus()


@pytest.mark.parametrize(
    ("variable", "expected"), [("3", 3), ("", CPUS), ("0", CPUS), ("-2", CPUS)]
)
def test_the_default_is_that_of_openmp_or_the_processors_and_needs_no_torch(
    variable: str, expected: int
) -> None:
    code = (
        "import sys\nfrom embedwell_models.encoder.threads import thread_count\n"
        "print(thread_count(), 'torch' in sys.modules)"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": variable}
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
    assert found.stdout == f"{expected} False\n"


def test_torch_has_the_number_that_is_set() -> None:
    with use_threads(3):
        assert thread_count() == torch.get_num_threads() == 3
    with pytest.raises(ValueError, match="needs a thread, not 0"):
        set_thread_count(0)


def test_a_single_threaded_caller_counts_itself_and_no_other() -> None:
    before = thread_count()
    with single_threaded():
        with single_threaded():
            pass
        with ThreadPoolExecutor() as others:
            assert (thread_count(), others.submit(thread_count).result()) == (
                1,
                before,
            )
    assert thread_count() == before == process_thread_count()


@pytest.mark.full(after=1)
def test_passes_side_by_side_give_the_bits_of_one_after_the_other(any_embedder: Embedder) -> None:
    ids = any_embedder.tokenizer.encode([f"text {n} " * (1 + n % 40) for n in range(48)])
    batches = [[row.ids for row in ids[start::6]] for start in range(6)]
    start = threading.Barrier(3)

    def run(first: int) -> list[np.ndarray]:
        start.wait(timeout=120)
        with single_threaded():
            return [any_embedder.encode(batch) for batch in batches[first::3] * 3]

    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(run, range(3)))
    for first, vectors in enumerate(found):
        expected = [any_embedder.encode(batch) for batch in batches[first::3]] * 3
        assert all(map(np.array_equal, vectors, expected))


WORK = 0.01  # seconds of processor time of a pass
Machine = Callable[[int], float]
"""The duration of a pass by the size of its team."""


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Passes:
    """Passes of a process on a machine that may change."""

    def __init__(self, count: int) -> None:
        self._clock = Clock()
        self.sizing = TeamSizing(count, self._clock)

    def run(self, machine: Machine, seconds: float) -> list[int]:
        """Run passes for a while; return their sizes."""
        sizes, end = [], self._clock.now + seconds
        while self._clock.now < end:
            sizes.append(self.sizing.size)
            elapsed = machine(sizes[-1])
            self._clock.now += elapsed
            self.sizing.observe(sizes[-1], elapsed, WORK)
        return sizes


def free(size: int) -> float:
    return WORK / size


def shared(size: int) -> float:
    """Other programs have nine tenths of each processor; a team waits at each of its barriers."""
    return 10 * WORK if size == 1 else 30 * WORK


def three_processors(size: int) -> float:
    return WORK / size if size <= 3 else 2 * WORK


@pytest.mark.parametrize("count", [1, 2, 16])
def test_a_team_that_loses_nothing_keeps_its_size(count: int) -> None:
    assert set(Passes(count).run(free, 10)) == {count}


def test_a_team_whose_threads_wait_for_their_processors_becomes_a_single_thread() -> None:
    sizes = Passes(2).run(shared, 100)
    assert sizes[:2] == [2, 2] and sizes.count(1) > 0.9 * len(sizes)


def test_a_team_shrinks_to_the_processors_that_it_gets() -> None:
    sizes = Passes(16).run(three_processors, 100)
    assert sizes.count(3) > 0.9 * len(sizes)


def test_trials_of_other_sizes_take_little_of_the_time() -> None:
    passes = Passes(2)
    passes.run(shared, 100)
    times = [shared(size) for size in passes.run(shared, 100) if size == 2]
    assert 0 < sum(times) < 15


def test_a_team_grows_again_when_the_processors_are_free() -> None:
    passes = Passes(16)
    passes.run(shared, 100)
    passes.run(free, 60)
    assert set(passes.run(free, 10)) == {16}


def test_a_large_team_that_is_slower_for_another_reason_stays() -> None:
    sizes = Passes(4).run(lambda size: 3 * WORK / size, 10)
    assert sizes.count(4) > 0.8 * len(sizes), "other programs take two thirds of each processor"


def test_a_clock_too_coarse_for_a_pass_keeps_the_size() -> None:
    sizing = TeamSizing(2)
    for _ in range(100):
        sizing.observe(2, 0.0, 0.0)
    assert sizing.size == 2


def test_a_team_that_loses_as_much_at_any_size_tries_larger_ones_too() -> None:
    passes = Passes(16)
    passes.run(three_processors, 100)
    sizes = passes.run(lambda size: 2 * WORK / size, 60)
    assert sizes.count(16) > 0.5 * len(sizes)


def test_trials_in_vain_become_rare() -> None:
    passes = Passes(2)
    passes.run(lambda size: (2 + size) * WORK, 100)
    sizes = passes.run(lambda size: (2 + size) * WORK, 100)
    assert 0 < sizes.count(2) < 120, "two passes in two seconds"


def test_a_change_is_noticed_after_a_long_time_without_one() -> None:
    passes = Passes(2)
    passes.run(free, 100)
    assert 1 in passes.run(shared, 10)


def test_near_sizes_are_tried_again_after_the_smallest() -> None:
    passes = Passes(16)
    passes.run(lambda size: 3 * WORK / size, 60)
    sizes = passes.run(lambda size: WORK / size if size <= 12 else 3 * WORK / size, 60)
    assert sizes.count(12) > 0.5 * len(sizes)


def test_a_size_that_is_hardly_better_is_not_chosen() -> None:
    sizes = Passes(2).run(lambda size: WORK if size == 2 else 0.98 * WORK, 10)
    assert sizes.count(2) > 0.8 * len(sizes)
