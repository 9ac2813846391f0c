"""Tests of how what waits is divided."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.engine.worker.batch_sizing import BatchSizing

BUDGETS, LANES, WAITING = st.integers(1, 100_000), st.integers(1, 128), st.integers(0, 1_000_000)


@given(BUDGETS, WAITING, st.integers(0, 9))
def test_with_one_lane_every_pass_may_have_the_budget(budget: int, waiting: int, busy: int) -> None:
    sizing = BatchSizing(budget)
    assert not sizing.apart(waiting, busy)
    assert sizing.size(waiting, apart=False) == sizing.full(apart=False) == budget


@given(BUDGETS, LANES, WAITING, st.booleans(), st.floats(0))
@example(2048, 2, 0, True, 0.0)
def test_no_pass_is_larger_than_the_budget_or_empty(
    budget: int, lanes: int, waiting: int, apart: bool, rate: float
) -> None:
    assert 1 <= BatchSizing(budget, lanes, rate=rate).size(waiting, apart) <= budget


@pytest.mark.parametrize(
    ("lanes", "apart", "rate", "tokens"),
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
def test_a_pass_on_a_cpu_takes_thirty_milliseconds_if_it_can(
    lanes: int, apart: bool, rate: float, tokens: int
) -> None:
    sizing = BatchSizing(2048, lanes).at(rate)
    assert sizing.full(apart) == tokens
    assert sizing.size(10**6, apart) in (tokens, tokens - 1)
    assert sizing.long(sizing.full_apart + 1)


def test_a_pass_on_a_device_is_as_large_as_it_may_be() -> None:
    assert BatchSizing(65536, ahead=1, rate=100.0).full(False) == 65536


@pytest.mark.parametrize(
    ("waiting", "batches", "apart"), [(512, 0, False), (513, 0, True), (1, 1, True), (0, 0, False)]
)
def test_much_work_is_done_apart_and_whatever_comes_beside_it(
    waiting: int, batches: int, apart: bool
) -> None:
    assert BatchSizing(2048, 2).apart(waiting, batches) == apart


@pytest.mark.parametrize(
    ("waiting", "size"), [(10, 64), (200, 100), (600, 300), (1024, 512), (1100, 275), (9999, 500)]
)
def test_lanes_that_start_together_end_together(waiting: int, size: int) -> None:
    assert BatchSizing(2048, 2).size(waiting, apart=True) == size


@pytest.mark.parametrize(
    ("budget", "lanes", "most"), [(2048, 2, 512), (400, 2, 400), (2048, 1, 2048)]
)
def test_a_text_is_long_that_is_more_than_a_pass(budget: int, lanes: int, most: int) -> None:
    sizing = BatchSizing(budget, lanes)
    assert not sizing.long(most) and sizing.long(most + 1)


@pytest.mark.parametrize(
    ("lanes", "waiting", "together"),
    [(2, 8000, True), (2, 12000, True), (2, 16000, False), (16, 16000, True), (16, 128000, False)],
)
def test_a_long_text_is_computed_by_all_threads_where_most_would_be_idle_beside_it(
    lanes: int, waiting: int, together: bool
) -> None:
    assert BatchSizing(2048, lanes).together(8000, waiting) == together
