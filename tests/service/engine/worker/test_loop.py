"""Tests of the engine loop, with a small model and fake connections."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from embedwell.engine.wire.engine_state import CounterSlot, EngineProgress, SharedCounters
from embedwell.engine.wire.messages import Result, TokenIds
from embedwell.engine.worker.batch_sizing import BatchSizing
from embedwell.engine.worker.loop import Loop
from embedwell.engine.worker.receiver import CLOSED, ReceivedMessages
from embedwell_models.encoder.threads import process_thread_count, thread_count
from embedwell_models.outputs.text_outputs import TextOutputs
from tests.service.rig import POISON, FakeConnection, FakeConnections, Floats, Rig, SumModel

ROOT = Path(__file__).parents[4]
FAST = 1e6  # tokens per second


def test_outputs_of_a_job_are_packed_with_the_rows_of_each_text() -> None:
    rig = Rig()
    rig.send(1, [1, 2, 3], [4], output="dense+sparse")
    rig.run()
    result = rig.connection.sent[1]
    assert isinstance(result, Result)
    first, second = np.split(result.vectors, np.cumsum(result.row_counts)[:-1])
    outputs = TextOutputs.unpack(first)
    assert outputs.dense is not None and outputs.dense.tolist() == [6]
    assert outputs.sparse is not None and outputs.sparse.indices.tolist() == [1, 2, 3]
    assert outputs.multi is None and len(second) == result.row_counts[1] == 7


def test_waiting_jobs_share_a_batch_and_keep_their_order() -> None:
    rig = Rig()
    rig.send(1, [1, 2, 3], [4])
    rig.send(2, [5, 5])
    rig.run()
    assert rig.model.batches == [3]
    assert rig.result(1) == [[6], [4]] and rig.result(2) == [[10]]


def test_the_results_of_a_batch_are_one_message() -> None:
    rig = Rig()
    for number in range(5):
        rig.send(number, [number])
    rig.run()
    assert rig.connection.messages == 1
    assert [rig.result(number) for number in range(5)] == [[[number]] for number in range(5)]


def test_jobs_that_arrive_during_a_batch_are_in_the_next() -> None:
    rig = Rig(max_batch_tokens=4)
    rig.send(1, [1, 1, 1], [2, 2, 2])
    rig.loop.run_once()
    rig.send(2, [3])
    rig.run()
    assert rig.model.batches == [1, 2]
    assert rig.result(1) == [[3], [6]] and rig.result(2) == [[3]]


def test_a_job_larger_than_a_batch_has_one_result() -> None:
    rig = Rig(max_batch_tokens=4)
    rig.send(1, [1, 1, 1], [2, 2], [3], [4, 4])
    rig.run()
    assert len(rig.model.batches) > 1 and rig.result(1) == [[3], [4], [3], [8]]


def test_a_job_with_two_bad_texts_has_one_failure() -> None:
    rig = Rig()
    rig.send(1, [POISON], [1], [POISON])
    rig.run()
    assert rig.failure(1).index in (0, 2)


def test_a_cancelled_job_is_not_computed_and_has_no_result() -> None:
    rig = Rig()
    rig.send(1, [1])
    rig.send(2, [2])
    rig.cancel(1)
    rig.run()
    assert rig.model.batches == [1] and set(rig.connection.sent) == {2}
    assert not rig.loop._job_table, "jobs must not leak"


@pytest.mark.parametrize("layer", [0, 2])
def test_hidden_states_of_all_texts_are_concatenated(layer: int) -> None:
    rig = Rig()
    rig.send(1, [1, 2], [3], output=layer)
    rig.run()
    assert rig.result(1) == [[layer, layer]] * 3


def test_a_text_without_tokens_is_computed_without_waiting() -> None:
    rig = Rig()
    rig.send(1, [])
    rig.send(2, [], output=0)
    rig.run()
    assert rig.result(1) == [[0]] and rig.result(2) == []


def test_each_text_keeps_its_number_of_skipped_tokens() -> None:
    rig = Rig()
    rig.send(1, [1, 1, 1], [2], prompt_token_counts=[2, 0])
    rig.send(2, [3, 3])
    rig.run()
    assert rig.model.batches == [3]
    assert rig.model.prompt_token_counts == [2, 0, 0] or sorted(rig.model.prompt_token_counts) == [
        0,
        0,
        2,
    ]


def test_jobs_of_two_connections_with_the_same_number_share_a_batch() -> None:
    rig = Rig()
    rig.send(1, [1])
    rig.send(1, [2], connection=rig.second_connection)
    rig.run()
    assert rig.model.batches == [2]
    assert rig.result(1) == [[1]]
    result = rig.second_connection.sent[1]
    assert isinstance(result, Result) and result.vectors.tolist() == [[2]]


def test_a_closed_connection_removes_its_jobs_and_no_others() -> None:
    rig = Rig()
    rig.send(1, [1])
    rig.send(1, [2], connection=rig.second_connection)
    rig.send(2, [3], [4], connection=rig.second_connection)
    rig.connections.received.append((rig.second_connection, CLOSED))
    rig.run()
    assert (
        rig.model.batches == [1]
        and set(rig.connection.sent) == {1}
        and not rig.second_connection.sent
    )
    assert not rig.loop._job_table, "jobs must not leak"


def test_a_full_batch_updates_the_rate() -> None:
    rig = Rig(max_batch_tokens=8, rate=1.0)
    rig.send(1, [1])
    rig.loop.run_once()
    rig.send(2, [1] * 8)
    rig.run()
    small, full = rig.connection.sent[1], rig.connection.sent[2]
    assert isinstance(small, Result) and isinstance(full, Result)
    assert small.rate == 1.0 < full.rate


class TwoThreadsModel(SumModel):
    """Blocks the first batch of a thread until another thread computes, too."""

    def __init__(self) -> None:
        super().__init__()
        self.both = threading.Barrier(2, timeout=120)
        self.threads: set[tuple[int, int]] = set()

    def encode(self, ids: Sequence[TokenIds], **options: Any) -> Floats:
        thread = threading.get_ident(), thread_count()
        if thread not in self.threads:
            self.both.wait()
            self.threads.add(thread)
        return super().encode(ids, **options)


def test_many_texts_are_computed_by_two_threads_single_threaded() -> None:
    rig = Rig(max_batch_tokens=2048, max_concurrent_batches=2, model=TwoThreadsModel())
    for number in range(20, 40):
        rig.send(number, [number] * 60)
    rig.run()
    assert [rig.result(number) for number in range(20, 40)] == [[[60 * n]] for n in range(20, 40)]
    assert isinstance(rig.model, TwoThreadsModel)
    assert {size for _, size in rig.model.threads} == {1} and len(rig.model.threads) == 2


def test_a_job_that_is_divided_among_threads_has_one_result() -> None:
    rig = Rig(max_batch_tokens=2048, max_concurrent_batches=2, model=TwoThreadsModel())
    rig.send(1, *[[number] * 100 for number in range(10)])
    rig.run()
    assert rig.result(1) == [[100 * number] for number in range(10)]


class BlockedLeaderModel(TwoThreadsModel):
    """Blocks the leader until a follower has computed a text of one token."""

    def __init__(self) -> None:
        super().__init__()
        self.short = threading.Event()

    def encode(self, ids: Sequence[TokenIds], **options: Any) -> Floats:
        vectors = super().encode(ids, **options)
        if len(ids[0]) == 1:
            self.short.set()
        if threading.current_thread() is threading.main_thread():
            assert self.short.wait(timeout=120), "it waits for the leader"
        return vectors


def test_a_follower_receives_jobs_while_the_leader_computes() -> None:
    rig = Rig(model=BlockedLeaderModel())
    rig.send(1, [1] * 500, [1] * 500)
    rig.send(2, [5])
    connections = DelayedConnections(rig.connections.received, lambda: bool(rig.model.batches))
    rig.loop = Loop(connections, rig.model, BatchSizing(2048, 2), FAST)
    rig.run()
    assert rig.result(1) == [[500], [500]] and rig.result(2) == [[5]]


class ThreadCountModel(SumModel):
    """Records how many threads each batch may use."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []

    def encode(self, ids: Sequence[TokenIds], **options: Any) -> Floats:
        self.threads.append(thread_count())
        return super().encode(ids, **options)


def test_few_texts_are_computed_by_all_threads_together() -> None:
    rig = Rig(max_batch_tokens=2048, max_concurrent_batches=2, model=ThreadCountModel())
    rig.send(1, [1] * 500, [2])
    rig.run()
    assert isinstance(rig.model, ThreadCountModel)
    assert rig.model.threads == [process_thread_count()] and rig.model.batches == [2]


class BlockedFollowerModel(SumModel):
    """Blocks followers until the id 9 is computed; records the threads of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.batch_started, self.nine_computed = threading.Event(), threading.Event()
        self.threads: dict[int, int] = {}

    def encode(self, ids: Sequence[TokenIds], **options: Any) -> Floats:
        if threading.current_thread() is not threading.main_thread():
            self.batch_started.set()
            assert self.nine_computed.wait(timeout=120)
            time.sleep(0.1)
        assert self.batch_started.wait(timeout=120)
        vectors = super().encode(ids, **options)
        self.threads[int(ids[-1][0])] = thread_count()
        if ids[-1][0] == 9:
            self.nine_computed.set()
        return vectors


class SequentialConnections(FakeConnections):
    """Delivers one message at a time; the last one to a waiting thread when `answered`."""

    def __init__(self, messages: ReceivedMessages, answered: Callable[[], bool]) -> None:
        super().__init__()
        self.messages, self.answered = messages, answered

    def receive(self, wait: bool) -> ReceivedMessages:
        while wait and len(self.messages) == 1 and not self.answered():
            time.sleep(0.01)
        return [self.messages.pop(0)] if self.messages else super().receive(wait)


def test_the_leader_computes_new_jobs_during_a_follower_and_then_with_all_threads() -> None:
    rig = Rig(model=BlockedFollowerModel())
    rig.send(0, [1] * 510, [2] * 300)
    for number in (3, 9, 5):
        rig.send(number, [number])
    connections = SequentialConnections(
        rig.connections.received, lambda: {0, 3, 9} <= set(rig.connection.sent)
    )
    rig.loop = Loop(connections, rig.model, BatchSizing(2048, 2), FAST)
    rig.run()
    assert rig.result(0) == [[510], [600]]
    assert [rig.result(number) for number in (3, 9, 5)] == [[[3]], [[9]], [[5]]]
    assert isinstance(rig.model, BlockedFollowerModel)
    assert rig.model.threads == {1: 1, 2: 1, 3: 1, 9: 1, 5: process_thread_count()}


def test_waiting_texts_are_not_computed_after_shutdown() -> None:
    rig = Rig(max_concurrent_batches=2, max_batch_tokens=600, model=TwoThreadsModel())
    rig.send(1, *[[1] * 600] * 20)
    rig.connections = ShutdownConnections(rig.connections.received)
    rig.loop = Loop(rig.connections, rig.model, BatchSizing(600, 2), FAST)
    rig.run()
    assert sum(rig.model.batches) <= 3


class ShutdownConnections(FakeConnections):
    """Delivers its messages, and then the server shuts down."""

    def __init__(self, messages: ReceivedMessages) -> None:
        super().__init__()
        self.received = messages

    def receive(self, wait: bool) -> ReceivedMessages:
        return super().receive(wait=True)


class PrefetchingModel(SumModel):
    """Blocks the first batch until the second is queued."""

    def __init__(self) -> None:
        super().__init__()
        self.second = threading.Event()

    def encode(self, ids: Sequence[TokenIds], **options: Any) -> Floats:
        first = not self.batches
        vectors = super().encode(ids, **options)
        if first:
            assert self.second.wait(timeout=120)
        else:
            self.second.set()
        return vectors


class DelayedConnections(FakeConnections):
    """Delivers the first message, and the others when a batch has started."""

    def __init__(self, messages: ReceivedMessages, batch_started: Callable[[], bool]) -> None:
        super().__init__()
        self.received, self.later, self.batch_started = messages[:1], messages[1:], batch_started

    def receive(self, wait: bool) -> ReceivedMessages:
        while wait and self.later and not self.received and not self.batch_started():
            time.sleep(0.01)
        if self.batch_started():
            self.received, self.later = self.received + self.later, []
        return super().receive(wait)


def test_the_next_batch_is_received_and_queued_while_a_gpu_computes() -> None:
    rig = Rig(model=PrefetchingModel())
    rig.send(1, [1, 2])
    rig.send(2, [3])
    connections = DelayedConnections(rig.connections.received, lambda: bool(rig.model.batches))
    rig.loop = Loop(connections, rig.model, BatchSizing(100, prefetch_depth=1), 1.0)
    rig.run()
    assert rig.result(1) == [[3]] and rig.result(2) == [[3]]
    assert rig.model.batches == [1, 1]


class StuckConnection(FakeConnection):
    """A connection whose other end reads nothing until another connection has a result."""

    def __init__(self, other: FakeConnection) -> None:
        super().__init__()
        self.other, self.sending = other, threading.Event()

    def send(self, header: Any, *body: Any) -> None:
        self.sending.set()
        deadline = time.monotonic() + 120
        while not self.other.sent:
            assert time.monotonic() < deadline, "a slow connection blocks another"
            time.sleep(0.01)
        super().send(header, *body)


class SendingModel(PrefetchingModel):
    """Blocks the second batch until the result of the first is being sent."""

    sending = threading.Event()

    def encode(self, ids: Sequence[TokenIds], **options: Any) -> Floats:
        vectors = super().encode(ids, **options)
        if ids[0][0] == 3:
            assert self.sending.wait(timeout=120)
        return vectors


def test_a_result_that_is_slow_to_send_blocks_no_other_thread() -> None:
    model = SendingModel()
    rig = Rig(model=model)
    rig.connection = connection = StuckConnection(rig.second_connection)
    model.sending = connection.sending
    rig.send(1, [1, 2])
    rig.send(2, [3], connection=rig.second_connection)
    connections = DelayedConnections(rig.connections.received, lambda: bool(rig.model.batches))
    rig.loop = Loop(connections, rig.model, BatchSizing(100, prefetch_depth=1), 1.0)
    rig.run()
    assert rig.result(1) == [[3]] and 2 in rig.second_connection.sent


def test_the_start_and_the_end_of_every_batch_are_reported() -> None:
    counters = SharedCounters.private()
    rig = Rig(model=ProgressModel(counters))
    rig.send(1, [1] * 50)
    progress = EngineProgress(counters)
    rig.loop = Loop(rig.connections, rig.model, BatchSizing(100), 10.0, progress=progress)
    rig.run()
    assert isinstance(rig.model, ProgressModel)
    assert rig.model.progress == [(1, 5.0)]  # 50 tokens at 10 a second
    assert [
        counters.row[slot]
        for slot in (CounterSlot.ENGINE_BATCHES, CounterSlot.ENGINE_EXPECTED_SECONDS)
    ] == [
        2,
        0,
    ]


class ProgressModel(SumModel):
    """Records the counters during each batch."""

    def __init__(self, counters: SharedCounters) -> None:
        super().__init__()
        self.row, self.progress = counters.row, list[tuple[float, float]]()

    def encode(self, ids: Sequence[TokenIds], **options: Any) -> Floats:
        self.progress.append(
            (self.row[CounterSlot.ENGINE_BATCHES], self.row[CounterSlot.ENGINE_EXPECTED_SECONDS])
        )
        return super().encode(ids, **options)


def test_alternating_leaders_compute_every_job_once() -> None:
    rig = Rig(max_batch_tokens=8, prefetch_depth=1)
    numbers = range(100, 300)
    for number in numbers:
        rig.send(number, [number], [1] * 3)
    rig.run()
    assert [rig.result(number) for number in numbers] == [[[n], [3]] for n in numbers]


class LongTextModel(SumModel):
    """Blocks long texts until a short one is computed; records lengths and threads of batches."""

    def __init__(self) -> None:
        super().__init__()
        self.short = threading.Event()
        self.threads: list[tuple[int, int]] = []

    def encode(self, ids: Sequence[TokenIds], **options: Any) -> Floats:
        self.threads.append((len(ids[0]), thread_count()))
        vectors = super().encode(ids, **options)
        if len(ids[0]) < 100:
            self.short.set()
        assert self.short.wait(timeout=120), "it waits for a long text"
        return vectors


def compute_short_during_long(
    long: int, max_concurrent_batches: int, max_batch_tokens: int = 2048
) -> LongTextModel:
    """Compute a short text that arrives while several long ones are computed."""
    model = LongTextModel()
    rig = Rig(model=model)
    rig.send(1, *[[1] * (max_batch_tokens + 1)] * long)
    rig.send(2, [5])
    connections = DelayedConnections(
        rig.connections.received, lambda: len(model.batches) >= min(long, max_concurrent_batches)
    )
    rig.loop = Loop(connections, model, BatchSizing(max_batch_tokens, max_concurrent_batches), FAST)
    rig.run()
    assert rig.result(1) == [[max_batch_tokens + 1]] * long and rig.result(2) == [[5]]
    return model


@pytest.mark.parametrize(
    ("long", "max_concurrent_batches"), [(1, 1), (1, 2), (1, 3), (2, 2), (3, 3), (5, 3)]
)
def test_a_short_text_does_not_wait_for_long_ones(long: int, max_concurrent_batches: int) -> None:
    compute_short_during_long(long, max_concurrent_batches)


def test_a_single_long_text_is_computed_by_all_threads() -> None:
    assert compute_short_during_long(1, 2).threads == [(2049, process_thread_count()), (1, 1)]


def test_long_texts_for_all_threads_are_computed_single_threaded() -> None:
    assert compute_short_during_long(2, 2).threads == [(2049, 1), (2049, 1), (1, 1)]


def test_after_a_long_text_few_texts_are_computed_by_all_threads_again() -> None:
    model = LongTextModel()
    rig = Rig(model=model)
    for number, row in enumerate([[1] * 2049, [5], [6], [7]]):
        rig.send(number, row)
    connections = AnsweredConnections(rig.connections.received, lambda: len(rig.connection.sent))
    rig.loop = Loop(connections, model, BatchSizing(2048, 2), FAST)
    rig.run()
    assert [rig.result(number) for number in range(4)] == [[[2049]], [[5]], [[6]], [[7]]]
    assert model.threads[2:] == [(1, process_thread_count())] * 2


class AnsweredConnections(FakeConnections):
    """Delivers two messages, and each later one when all before it are answered."""

    def __init__(self, messages: ReceivedMessages, answered: Callable[[], int]) -> None:
        super().__init__()
        self.messages, self.answered, self.delivered = messages, answered, 0

    def receive(self, wait: bool) -> ReceivedMessages:
        while wait and 2 <= self.delivered > self.answered():
            time.sleep(0.01)
        if wait and self.delivered == len(self.messages):
            raise EOFError
        if 2 <= self.delivered > self.answered() or self.delivered == len(self.messages):
            return []
        self.delivered += 1
        return [self.messages[self.delivered - 1]]


class FailingModel(SumModel):
    """Fails on every thread but the main one, which waits for that."""

    def encode(self, ids: Sequence[TokenIds], **options: Any) -> Floats:
        if threading.current_thread() is not threading.main_thread():
            raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
        time.sleep(600)
        return super().encode(ids, **options)


def fail(max_concurrent_batches: int, prefetch_depth: int) -> None:
    """Run a loop in which one thread fails."""
    rig = Rig(
        max_batch_tokens=512,
        max_concurrent_batches=max_concurrent_batches,
        model=FailingModel(),
        prefetch_depth=prefetch_depth,
    )
    rig.send(1, *[[1] * 500] * 2)
    rig.run()


@pytest.mark.parametrize(("max_concurrent_batches", "prefetch_depth"), [(2, 0), (1, 1)])
@pytest.mark.full(after=1)
def test_a_thread_that_fails_ends_the_process(
    max_concurrent_batches: int, prefetch_depth: int
) -> None:
    arguments = f"{max_concurrent_batches}, {prefetch_depth}"
    program = f"from tests.service.engine.worker.test_loop import fail; fail({arguments})"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "a thread of the engine failed" in done.stderr
