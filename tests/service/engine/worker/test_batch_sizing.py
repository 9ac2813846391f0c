"""Tests of the sizes of batches."""

from collections.abc import Mapping

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from embedwell.engine.worker.batch_sizing import (
    BatchLimit,
    BatchSizing,
    Throughput,
    choose_batch_limit,
    find_gpu_batch_limit,
)
from embedwell_models.embedder import Embedder
from embedwell_models.encoder.batch import IdRows

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
    [
        *((2, 8000, True), (2, 12000, True), (2, 13000, False), (2, 16000, False)),
        *((16, 16000, True), (16, 128000, False)),
    ],
)
def test_a_long_text_is_computed_by_all_threads_if_most_would_be_idle(
    max_concurrent_batches: int, waiting: int, use_all_threads: bool
) -> None:
    assert (
        BatchSizing(2048, max_concurrent_batches).use_all_threads(8000, waiting) == use_all_threads
    )


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


class Device:
    """Returns tokens per second by the tokens of a batch; out of memory for any others."""

    def __init__(self, rates: Mapping[int, float]) -> None:
        self.rates = rates
        self.tried: list[int] = []

    def __call__(self, tokens: int) -> float:
        self.tried.append(tokens)
        if tokens not in self.rates:
            raise torch.OutOfMemoryError
        return self.rates[tokens]


@pytest.mark.parametrize(
    ("rates", "best", "tried"),
    [
        ({2048: 100, 4096: 106, 8192: 110}, 4096, 3),  # 110 is not 5 % more than 106
        ({2048: 100, 4096: 104}, 2048, 2),
        ({2048: 100, 4096: 200}, 4096, 3),  # then the memory is full
        ({2048: 100}, 2048, 2),
        ({2048 << n: 2.0**n for n in range(9)}, 65536, 6),
    ],
)
def test_the_budget_doubles_while_that_is_faster(
    rates: Mapping[int, float], best: int, tried: int
) -> None:
    device = Device(rates)
    assert find_gpu_batch_limit(device) == BatchLimit(best, rates[best])
    assert device.tried == [2048 << n for n in range(tried)]


def test_the_budget_is_halved_until_it_fits() -> None:
    device = Device({512: 90})
    assert find_gpu_batch_limit(device) == BatchLimit(512, 90, reduced=True)
    assert device.tried == [2048, 1024, 512]
    with pytest.raises(torch.OutOfMemoryError):
        find_gpu_batch_limit(Device({}))


class SmallModel:
    """A model on a device whose memory holds a batch of some tokens."""

    def __init__(self, tokens: int) -> None:
        self.device, self.max_length, self._tokens = torch.device("meta"), 512, tokens

    def try_out(self, ids: IdRows) -> None:
        if sum(map(len, ids)) > self._tokens:
            raise torch.OutOfMemoryError


def test_a_requested_budget_that_does_not_fit_is_halved_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert choose_batch_limit(SmallModel(5000), 16384).tokens == 4096
    assert caplog.messages == [
        "a batch of 16384 tokens does not fit into the device's memory: 4096 do, and longer texts "
        "may fail"
    ]


class RecordingModel:
    """Records the lengths of each batch."""

    def __init__(self, device: str, max_length: int) -> None:
        self.device, self.max_length = torch.device(device), max_length
        self.batches: list[list[int]] = []

    def try_out(self, ids: IdRows) -> None:
        self.batches.append([len(row) for row in ids])
        if len(self.batches) > 3:
            raise torch.OutOfMemoryError


def test_a_cpu_is_measured_once_with_the_longest_texts() -> None:
    model = RecordingModel("cpu", 512)
    assert choose_batch_limit(model, 0).tokens == 2048
    assert model.batches == [[512] * 4]


def test_a_requested_budget_is_used() -> None:
    for device in ("cpu", "meta"):
        model = RecordingModel(device, 512)
        assert choose_batch_limit(model, 300).tokens == 300
        assert model.batches == [[300]]


def test_a_gpu_is_measured_with_texts_of_typical_length() -> None:
    model = RecordingModel("meta", 8192)
    assert choose_batch_limit(model, 0).tokens == 2048
    assert model.batches == [[256] * 8] * 3 + [[256] * 16]


def test_a_real_model_has_a_rate(embedder: Embedder) -> None:
    assert choose_batch_limit(embedder, 64).rate > 0
