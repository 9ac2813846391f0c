"""Tests of passes that run at once, each on a thread of its own."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from embedwell_models.embedder import Embedder
from embedwell_models.encoder.threads import single_threaded, thread_count


def test_a_single_threaded_caller_counts_itself_and_no_other() -> None:
    before = thread_count()
    with single_threaded():
        with single_threaded():
            pass
        with ThreadPoolExecutor() as others:
            assert (thread_count(), others.submit(thread_count).result()) == (
                1,
                torch.get_num_threads(),
            )
    assert thread_count() == before == torch.get_num_threads()


@pytest.mark.full(after=1)
def test_passes_side_by_side_give_the_bits_of_one_after_the_other(any_embedder: Embedder) -> None:
    ids = any_embedder.tokenizer.encode([f"text {n} " * (1 + n % 40) for n in range(120)])
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
