"""Tests of the measured speed."""

import pytest

from service.engine.worker.batch_sizing import BatchSizing
from service.engine.worker.throughput import Throughput

FAST = 1e6


@pytest.mark.parametrize(
    ("tokens", "apart", "rate"),
    [
        (512, True, FAST + 0.2 * (4 * 512 - FAST)),  # every one of four lanes is as fast
        (128, True, FAST + 0.2 * (4 * 128 - FAST)),
        (127, True, FAST),
        (256, False, FAST + 0.2 * (256 - FAST)),
        (255, False, FAST),
    ],
)
def test_full_passes_tell_how_fast_the_engine_is(tokens: int, apart: bool, rate: float) -> None:
    pace = Throughput(BatchSizing(2048, 4), FAST)
    pace.observe(tokens, 7.0, 8.0, apart)
    assert pace.rate == pytest.approx(rate)


def test_the_small_passes_of_a_slow_engine_tell_how_fast_it_is() -> None:
    pace = Throughput(BatchSizing(2048, 4), 100.0)
    pace.observe(16, 7.0, 8.0, apart=True)
    assert pace.rate == pytest.approx(100 + 0.2 * (4 * 16 - 100))
    pace.observe(15, 7.0, 8.0, apart=True)
    assert pace.rate == pytest.approx(100 + 0.2 * (4 * 16 - 100))


def test_a_pass_that_waited_on_the_device_took_as_long_as_after_the_one_before() -> None:
    pace = Throughput(BatchSizing(100, ahead=1), 100.0)
    pace.observe(100, 7.0, 8.0, apart=False)
    assert pace.rate == pytest.approx(100)
    pace.observe(100, 7.2, 8.5, apart=False)
    assert pace.rate == pytest.approx(100 + 0.2 * (200 - 100))


def test_a_pass_that_is_observed_after_one_that_came_behind_it_tells_nothing() -> None:
    pace = Throughput(BatchSizing(100, ahead=1), 100.0)
    pace.observe(1, 7.5, 8.0, apart=False)
    assert pace.observe(100, 7.0, 8.0005, apart=False) == 7.0
    assert pace.observe(100, 7.2, 8.001, apart=False) == 7.2
    assert pace.rate == 100
    assert pace.observe(100, 7.9, 9.001, apart=False) == 8.001
    assert pace.rate == pytest.approx(100)


def test_passes_apart_begin_when_they_are_started() -> None:
    pace = Throughput(BatchSizing(2048, 2), 100.0)
    pace.observe(512, 7.0, 8.0, apart=True)
    assert pace.observe(512, 7.5, 8.5, apart=True) == 7.5
