"""Tests of the sizes of batches."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from embedwell.engine.worker.batch_sizing import BatchSizing

BUDGETS, CONCURRENT, WAITING = (
    st.integers(1, 100_000),
    st.integers(1, 128),
    st.integers(0, 1_000_000),
)


@given(BUDGETS, WAITING, st.integers(0, 9))
def test_without_concurrent_batches_each_may_fill_the_budget(
    max_batch_tokens: int, waiting: int, busy: int
) -> None:
    sizing = BatchSizing(max_batch_tokens)
    assert not sizing.use_one_thread(waiting, busy)
    assert (
        sizing.next_batch_tokens(waiting, single_threaded=False)
        == sizing.full_batch(single_threaded=False)
        == max_batch_tokens
    )


@given(BUDGETS, CONCURRENT, WAITING, st.booleans(), st.floats(0))
@example(2048, 2, 0, True, 0.0)
def test_no_batch_is_larger_than_the_budget_or_empty(
    max_batch_tokens: int,
    max_concurrent_batches: int,
    waiting: int,
    single_threaded: bool,
    rate: float,
) -> None:
    assert (
        1
        <= BatchSizing(max_batch_tokens, max_concurrent_batches, rate=rate).next_batch_tokens(
            waiting, single_threaded
        )
        <= max_batch_tokens
    )


@pytest.mark.parametrize(
    ("max_concurrent_batches", "single_threaded", "rate", "tokens"),
    [
        (2, True, 1e9, 512),
        (2, True, 17_000, 255),  # 8,500 tokens a second of a thread
        (2, True, 6_000, 90),
        (2, True, 100, 64),  # fewer are not worth reading the weights for
        (2, False, 1e9, 512),
        (2, False, 6_000, 180),
        (2, False, 100, 128),
        (1, False, 1e9, 2048),
        (1, False, 6_000, 180),
        (1, False, 100, 64),
    ],
)
def test_a_full_batch_on_a_cpu_takes_about_thirty_milliseconds(
    max_concurrent_batches: int, single_threaded: bool, rate: float, tokens: int
) -> None:
    sizing = BatchSizing(2048, max_concurrent_batches).with_rate(rate)
    assert sizing.full_batch(single_threaded) == tokens
    assert sizing.next_batch_tokens(10**6, single_threaded) in (tokens, tokens - 1)
    assert sizing.is_long(sizing.full_single_threaded + 1)


@pytest.mark.parametrize(("jobs", "tokens"), [(1, 90), (48, 90), (96, 180), (10_000, 512)])
def test_batches_grow_with_the_jobs_that_wait_for_each_other(jobs: int, tokens: int) -> None:
    sizing = BatchSizing(2048, 2, rate=6_000)
    assert tokens - 1 <= sizing.next_batch_tokens(10**6, single_threaded=True, jobs=jobs) <= tokens


def test_a_batch_on_a_gpu_fills_the_budget() -> None:
    assert BatchSizing(65536, prefetch_depth=1, rate=100.0).full_batch(False) == 65536


@pytest.mark.parametrize(
    ("waiting", "batches", "single_threaded"),
    [(512, 0, False), (513, 0, True), (1, 1, True), (0, 0, False)],
)
def test_many_tokens_and_concurrent_batches_are_computed_single_threaded(
    waiting: int, batches: int, single_threaded: bool
) -> None:
    assert BatchSizing(2048, 2).use_one_thread(waiting, batches) == single_threaded


@pytest.mark.parametrize(
    ("waiting", "size"), [(10, 64), (200, 100), (600, 300), (1024, 512), (1100, 275), (9999, 500)]
)
def test_concurrent_batches_that_start_together_have_equal_sizes(waiting: int, size: int) -> None:
    assert BatchSizing(2048, 2).next_batch_tokens(waiting, single_threaded=True) == size


@pytest.mark.parametrize(
    ("max_batch_tokens", "max_concurrent_batches", "limit"),
    [(2048, 2, 512), (400, 2, 400), (2048, 1, 2048)],
)
def test_a_text_is_long_if_it_exceeds_a_single_threaded_batch(
    max_batch_tokens: int, max_concurrent_batches: int, limit: int
) -> None:
    sizing = BatchSizing(max_batch_tokens, max_concurrent_batches)
    assert not sizing.is_long(limit) and sizing.is_long(limit + 1)


@pytest.mark.parametrize(
    ("max_concurrent_batches", "waiting", "use_all_threads"),
    [(2, 8000, True), (2, 12000, True), (2, 16000, False), (16, 16000, True), (16, 128000, False)],
)
def test_a_long_text_is_computed_by_all_threads_if_most_would_be_idle(
    max_concurrent_batches: int, waiting: int, use_all_threads: bool
) -> None:
    assert (
        BatchSizing(2048, max_concurrent_batches).use_all_threads(8000, waiting) == use_all_threads
    )
