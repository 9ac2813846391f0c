"""Tests of the measured speed."""

import pytest

from embedwell.engine.worker.batch_sizing import BatchSizing
from embedwell.engine.worker.throughput import Throughput

FAST = 1e6


@pytest.mark.parametrize(
    ("tokens", "single_threaded", "rate"),
    [
        (512, True, FAST + 0.2 * (4 * 512 - FAST)),  # every one of four threads is as fast
        (128, True, FAST + 0.2 * (4 * 128 - FAST)),
        (127, True, FAST),
        (256, False, FAST + 0.2 * (256 - FAST)),
        (255, False, FAST),
    ],
)
def test_full_batches_update_the_rate(tokens: int, single_threaded: bool, rate: float) -> None:
    throughput = Throughput(BatchSizing(2048, 4), FAST)
    throughput.observe(tokens, 7.0, 8.0, single_threaded)
    assert throughput.rate == pytest.approx(rate)


def test_smaller_batches_of_a_slow_engine_update_the_rate() -> None:
    throughput = Throughput(BatchSizing(2048, 4), 100.0)
    throughput.observe(16, 7.0, 8.0, single_threaded=True)
    assert throughput.rate == pytest.approx(100 + 0.2 * (4 * 16 - 100))
    throughput.observe(15, 7.0, 8.0, single_threaded=True)
    assert throughput.rate == pytest.approx(100 + 0.2 * (4 * 16 - 100))


def test_a_batch_queued_on_a_device_starts_after_the_previous_one() -> None:
    throughput = Throughput(BatchSizing(100, prefetch_depth=1), 100.0)
    throughput.observe(100, 7.0, 8.0, single_threaded=False)
    assert throughput.rate == pytest.approx(100)
    throughput.observe(100, 7.2, 8.5, single_threaded=False)
    assert throughput.rate == pytest.approx(100 + 0.2 * (200 - 100))


def test_a_batch_that_was_overtaken_does_not_update_the_rate() -> None:
    throughput = Throughput(BatchSizing(100, prefetch_depth=1), 100.0)
    throughput.observe(1, 7.5, 8.0, single_threaded=False)
    assert throughput.observe(100, 7.0, 8.0005, single_threaded=False) == 7.0
    assert throughput.observe(100, 7.2, 8.001, single_threaded=False) == 7.2
    assert throughput.rate == 100
    assert throughput.observe(100, 7.9, 9.001, single_threaded=False) == 8.001
    assert throughput.rate == pytest.approx(100)


def test_single_threaded_batches_start_at_once() -> None:
    throughput = Throughput(BatchSizing(2048, 2), 100.0)
    throughput.observe(512, 7.0, 8.0, single_threaded=True)
    assert throughput.observe(512, 7.5, 8.5, single_threaded=True) == 7.5
