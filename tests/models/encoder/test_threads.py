"""Tests of the number of threads, and of passes that run at once on a thread each."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from embedwell_models.embedder import Embedder
from embedwell_models.encoder.cpus import available_cpus
from embedwell_models.encoder.threads import (
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
