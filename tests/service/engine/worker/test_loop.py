"""Tests of the engine's loop, with a small model and a socket in memory."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from models.encoder.threads import count
from service.engine.protocol.messages import Ids, Result
from service.engine.protocol.progress import Progress
from service.engine.worker.batch_sizing import BatchSizing
from service.engine.worker.connections import CLOSED, ReceivedMessages
from service.engine.worker.loop import Loop
from service.process.shared_counters import SharedCounters, Slot
from tests.service.rig import POISON, Floats, Memory, Post, Rig, Sum

ROOT = Path(__file__).parents[4]
FAST = 1e6  # tokens per second


def test_jobs_that_wait_together_share_a_pass_and_keep_their_order() -> None:
    rig = Rig()
    rig.send(1, [1, 2, 3], [4])
    rig.send(2, [5, 5])
    rig.run()
    assert rig.model.batches == [3]
    assert rig.result(1) == [[6], [4]] and rig.result(2) == [[10]]


def test_what_a_pass_has_finished_is_one_message() -> None:
    rig = Rig()
    for number in range(5):
        rig.send(number, [number])
    rig.run()
    assert rig.connection.messages == 1
    assert [rig.result(number) for number in range(5)] == [[[number]] for number in range(5)]


def test_what_comes_while_a_pass_runs_is_in_the_next() -> None:
    rig = Rig(budget=4)
    rig.send(1, [1, 1, 1], [2, 2, 2])
    rig.loop.run_once()
    rig.send(2, [3])
    rig.run()
    assert rig.model.batches == [1, 2]
    assert rig.result(1) == [[3], [6]] and rig.result(2) == [[3]]


def test_a_job_larger_than_a_pass_is_answered_once_and_whole() -> None:
    rig = Rig(budget=4)
    rig.send(1, [1, 1, 1], [2, 2], [3], [4, 4])
    rig.run()
    assert len(rig.model.batches) > 1 and rig.result(1) == [[3], [4], [3], [8]]


def test_a_job_with_two_bad_texts_is_answered_once() -> None:
    rig = Rig()
    rig.send(1, [POISON], [1], [POISON])
    rig.run()
    assert rig.failure(1).index in (0, 2)


def test_a_cancelled_job_is_neither_computed_nor_answered() -> None:
    rig = Rig()
    rig.send(1, [1])
    rig.send(2, [2])
    rig.cancel(1)
    rig.run()
    assert rig.model.batches == [1] and set(rig.connection.sent) == {2}
    assert not rig.loop._job_table, "it would be kept for ever"


@pytest.mark.parametrize("layer", [0, 2])
def test_hidden_states_come_back_in_a_row(layer: int) -> None:
    rig = Rig()
    rig.send(1, [1, 2], [3], output=layer)
    rig.run()
    assert rig.result(1) == [[layer, layer]] * 3


def test_a_text_without_tokens_waits_for_nobody() -> None:
    rig = Rig()
    rig.send(1, [])
    rig.send(2, [], output=0)
    rig.run()
    assert rig.result(1) == [[0]] and rig.result(2) == []


def test_each_text_keeps_what_is_not_pooled_of_it() -> None:
    rig = Rig()
    rig.send(1, [1, 1, 1], [2], skips=[2, 0])
    rig.send(2, [3, 3])
    rig.run()
    assert rig.model.batches == [3]
    assert rig.model.skips == [2, 0, 0] or sorted(rig.model.skips) == [0, 0, 2]


def test_two_lines_may_number_their_jobs_alike_and_share_a_pass() -> None:
    rig = Rig()
    rig.send(1, [1])
    rig.send(1, [2], connection=rig.other)
    rig.run()
    assert rig.model.batches == [2]
    assert rig.result(1) == [[1]]
    answer = rig.other.sent[1]
    assert isinstance(answer, Result) and answer.vectors.tolist() == [[2]]


def test_a_line_that_is_gone_takes_its_jobs_with_it_and_no_other() -> None:
    rig = Rig()
    rig.send(1, [1])
    rig.send(1, [2], connection=rig.other)
    rig.send(2, [3], [4], connection=rig.other)
    rig.post.received.append((rig.other, CLOSED))
    rig.run()
    assert rig.model.batches == [1] and set(rig.connection.sent) == {1} and not rig.other.sent
    assert not rig.loop._job_table, "it would be kept for ever"


def test_a_full_pass_tells_how_fast_the_engine_is() -> None:
    rig = Rig(budget=8, rate=1.0)
    rig.send(1, [1])
    rig.loop.run_once()
    rig.send(2, [1] * 8)
    rig.run()
    small, full = rig.connection.sent[1], rig.connection.sent[2]
    assert isinstance(small, Result) and isinstance(full, Result)
    assert small.rate == 1.0 < full.rate


class Pair(Sum):
    """The first pass of a thread lasts until another thread's first has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.both = threading.Barrier(2, timeout=120)
        self.threads: set[tuple[int, int]] = set()

    def encode(self, ids: Sequence[Ids], **options: Any) -> Floats:
        thread = threading.get_ident(), count()
        if thread not in self.threads:
            self.both.wait()
            self.threads.add(thread)
        return super().encode(ids, **options)


def test_when_much_waits_two_threads_compute_passes_of_their_own() -> None:
    rig = Rig(budget=2048, max_concurrent_batches=2, model=Pair())
    for number in range(20, 40):
        rig.send(number, [number] * 60)
    rig.run()
    assert [rig.result(number) for number in range(20, 40)] == [[[60 * n]] for n in range(20, 40)]
    assert isinstance(rig.model, Pair)
    assert {size for _, size in rig.model.threads} == {1} and len(rig.model.threads) == 2


def test_a_job_that_is_divided_among_threads_is_answered_once_and_whole() -> None:
    rig = Rig(budget=2048, max_concurrent_batches=2, model=Pair())
    rig.send(1, *[[number] * 100 for number in range(10)])
    rig.run()
    assert rig.result(1) == [[100 * number] for number in range(10)]


class Led(Pair):
    """What the leader computes lasts until a follower has computed a text of one token."""

    def __init__(self) -> None:
        super().__init__()
        self.short = threading.Event()

    def encode(self, ids: Sequence[Ids], **options: Any) -> Floats:
        vectors = super().encode(ids, **options)
        if len(ids[0]) == 1:
            self.short.set()
        if threading.current_thread() is threading.main_thread():
            assert self.short.wait(timeout=120), "it waits for the leader"
        return vectors


def test_a_follower_takes_in_what_comes_while_the_leader_computes() -> None:
    rig = Rig(model=Led())
    rig.send(1, [1] * 500, [1] * 500)
    rig.send(2, [5])
    post = Later(rig.post.received, lambda: bool(rig.model.batches))
    rig.loop = Loop(post, rig.model, BatchSizing(2048, 2), FAST)
    rig.run()
    assert rig.result(1) == [[500], [500]] and rig.result(2) == [[5]]


class Counted(Sum):
    """Keeps how many threads each pass may use."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []

    def encode(self, ids: Sequence[Ids], **options: Any) -> Floats:
        self.threads.append(count())
        return super().encode(ids, **options)


def test_few_texts_are_computed_by_all_threads_together() -> None:
    rig = Rig(budget=2048, max_concurrent_batches=2, model=Counted())
    rig.send(1, [1] * 500, [2])
    rig.run()
    assert isinstance(rig.model, Counted)
    assert rig.model.threads == [torch.get_num_threads()] and rig.model.batches == [2]


class Slow(Sum):
    """Holds a follower's first pass until a text of nines has been computed; keeps who is alone."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.nines = threading.Event(), threading.Event()
        self.threads: dict[int, int] = {}

    def encode(self, ids: Sequence[Ids], **options: Any) -> Floats:
        if threading.current_thread() is not threading.main_thread():
            self.begun.set()
            assert self.nines.wait(timeout=120)
            time.sleep(0.1)
        assert self.begun.wait(timeout=120)
        vectors = super().encode(ids, **options)
        self.threads[int(ids[-1][0])] = count()
        if ids[-1][0] == 9:
            self.nines.set()
        return vectors


class Trickle(Post):
    """Gives one message after the other; whoever waits for the one after all, until `answered`."""

    def __init__(self, messages: ReceivedMessages, answered: Callable[[], bool]) -> None:
        super().__init__()
        self.messages, self.answered = messages, answered

    def receive(self, wait: bool) -> ReceivedMessages:
        while wait and len(self.messages) == 1 and not self.answered():
            time.sleep(0.01)
        return [self.messages.pop(0)] if self.messages else super().receive(wait)


def test_while_one_thread_is_long_at_it_the_other_takes_what_comes_and_then_they_are_one() -> None:
    rig = Rig(model=Slow())
    rig.send(0, [1] * 510, [2] * 300)
    for number in (3, 9, 5):
        rig.send(number, [number])
    post = Trickle(rig.post.received, lambda: {0, 3, 9} <= set(rig.connection.sent))
    rig.loop = Loop(post, rig.model, BatchSizing(2048, 2), FAST)
    rig.run()
    assert rig.result(0) == [[510], [600]]
    assert [rig.result(number) for number in (3, 9, 5)] == [[[3]], [[9]], [[5]]]
    assert isinstance(rig.model, Slow)
    assert rig.model.threads == {1: 1, 2: 1, 3: 1, 9: 1, 5: torch.get_num_threads()}


def test_when_the_server_is_no_more_what_waits_is_not_computed() -> None:
    rig = Rig(max_concurrent_batches=2, budget=600, model=Pair())
    rig.send(1, *[[1] * 600] * 20)
    rig.post = Cut(rig.post.received)
    rig.loop = Loop(rig.post, rig.model, BatchSizing(600, 2), FAST)
    rig.run()
    assert sum(rig.model.batches) <= 3


class Cut(Post):
    """Gives what it has, and then the server is no more."""

    def __init__(self, messages: ReceivedMessages) -> None:
        super().__init__()
        self.received = messages

    def receive(self, wait: bool) -> ReceivedMessages:
        return super().receive(wait=True)


class Device(Sum):
    """Does not answer its first pass before its second is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.second = threading.Event()

    def encode(self, ids: Sequence[Ids], **options: Any) -> Floats:
        first = not self.batches
        vectors = super().encode(ids, **options)
        if first:
            assert self.second.wait(timeout=120)
        else:
            self.second.set()
        return vectors


class Later(Post):
    """Gives all messages but the first when a pass has begun."""

    def __init__(self, messages: ReceivedMessages, begun: Callable[[], bool]) -> None:
        super().__init__()
        self.received, self.later, self.begun = messages[:1], messages[1:], begun

    def receive(self, wait: bool) -> ReceivedMessages:
        while wait and self.later and not self.received and not self.begun():
            time.sleep(0.01)
        if self.begun():
            self.received, self.later = self.received + self.later, []
        return super().receive(wait)


def test_while_a_device_computes_the_next_pass_is_read_and_asked_for() -> None:
    rig = Rig(model=Device())
    rig.send(1, [1, 2])
    rig.send(2, [3])
    post = Later(rig.post.received, lambda: bool(rig.model.batches))
    rig.loop = Loop(post, rig.model, BatchSizing(100, prefetch_depth=1), 1.0)
    rig.run()
    assert rig.result(1) == [[3]] and rig.result(2) == [[3]]
    assert rig.model.batches == [1, 1]


class Stuck(Memory):
    """A line whose other end reads nothing until an answer has gone out on another line."""

    def __init__(self, other: Memory) -> None:
        super().__init__()
        self.other, self.sending = other, threading.Event()

    def send(self, head: Any, body: Any = b"") -> None:
        self.sending.set()
        deadline = time.monotonic() + 60
        while not self.other.sent:
            assert time.monotonic() < deadline, "one answer holds up another"
            time.sleep(0.01)
        super().send(head, body)


class Second(Device):
    """Whose second pass ends when the answer of the first is being sent."""

    sending = threading.Event()

    def encode(self, ids: Sequence[Ids], **options: Any) -> Floats:
        vectors = super().encode(ids, **options)
        if ids[0][0] == 3:
            assert self.sending.wait(timeout=60)
        return vectors


def test_an_answer_that_takes_long_to_send_holds_up_no_other_thread() -> None:
    model = Second()
    rig = Rig(model=model)
    rig.connection = connection = Stuck(rig.other)
    model.sending = connection.sending
    rig.send(1, [1, 2])
    rig.send(2, [3], connection=rig.other)
    post = Later(rig.post.received, lambda: bool(rig.model.batches))
    rig.loop = Loop(post, rig.model, BatchSizing(100, prefetch_depth=1), 1.0)
    rig.run()
    assert rig.result(1) == [[3]] and 2 in rig.other.sent


def test_every_pass_is_told_of_when_it_begins_and_ends() -> None:
    counters = SharedCounters.private()
    rig = Rig(model=Noting(counters))
    rig.send(1, [1] * 50)
    progress = Progress(counters)
    rig.loop = Loop(rig.post, rig.model, BatchSizing(100), 10.0, progress=progress)
    rig.run()
    assert isinstance(rig.model, Noting)
    assert rig.model.noted == [(1, 5.0)]  # 50 tokens at 10 a second
    assert [counters.row[slot] for slot in (Slot.ENGINE_PASSES, Slot.ENGINE_EXPECTED)] == [2, 0]


class Noting(Sum):
    """Notes what the counters say of the pass that it computes."""

    def __init__(self, counters: SharedCounters) -> None:
        super().__init__()
        self.row, self.noted = counters.row, list[tuple[float, float]]()

    def encode(self, ids: Sequence[Ids], **options: Any) -> Floats:
        self.noted.append((self.row[Slot.ENGINE_PASSES], self.row[Slot.ENGINE_EXPECTED]))
        return super().encode(ids, **options)


def test_leaders_take_turns_and_answer_all_once() -> None:
    rig = Rig(budget=8, prefetch_depth=1)
    numbers = range(100, 300)
    for number in numbers:
        rig.send(number, [number], [1] * 3)
    rig.run()
    assert [rig.result(number) for number in numbers] == [[[n], [3]] for n in numbers]


class Patient(Sum):
    """Computes a long text for as long as a short one has not come; keeps who computed what."""

    def __init__(self) -> None:
        super().__init__()
        self.short = threading.Event()
        self.threads: list[tuple[int, int]] = []

    def encode(self, ids: Sequence[Ids], **options: Any) -> Floats:
        self.threads.append((len(ids[0]), count()))
        vectors = super().encode(ids, **options)
        if len(ids[0]) < 100:
            self.short.set()
        assert self.short.wait(timeout=120), "it waits for a long text"
        return vectors


def beside(long: int, max_concurrent_batches: int, budget: int = 2048) -> Patient:
    """Serve a short text that comes while so many long ones are computed."""
    model = Patient()
    rig = Rig(model=model)
    rig.send(1, *[[1] * (budget + 1)] * long)
    rig.send(2, [5])
    post = Later(rig.post.received, lambda: len(model.batches) >= min(long, max_concurrent_batches))
    rig.loop = Loop(post, model, BatchSizing(budget, max_concurrent_batches), FAST)
    rig.run()
    assert rig.result(1) == [[budget + 1]] * long and rig.result(2) == [[5]]
    return model


@pytest.mark.parametrize(
    ("long", "max_concurrent_batches"), [(1, 1), (1, 2), (1, 3), (2, 2), (3, 3), (5, 3)]
)
def test_a_short_text_waits_for_no_long_one(long: int, max_concurrent_batches: int) -> None:
    beside(long, max_concurrent_batches)


def test_a_long_text_that_is_alone_is_computed_by_all_threads() -> None:
    assert beside(1, 2).threads == [(2049, torch.get_num_threads()), (1, 1)]


def test_long_texts_for_all_lanes_are_computed_apart() -> None:
    assert beside(2, 2).threads == [(2049, 1), (2049, 1), (1, 1)]


def test_after_a_long_text_few_texts_are_computed_by_all_threads_again() -> None:
    model = Patient()
    rig = Rig(model=model)
    for number, row in enumerate([[1] * 2049, [5], [6], [7]]):
        rig.send(number, row)
    post = Steps(rig.post.received, lambda: len(rig.connection.sent))
    rig.loop = Loop(post, model, BatchSizing(2048, 2), FAST)
    rig.run()
    assert [rig.result(number) for number in range(4)] == [[[2049]], [[5]], [[6]], [[7]]]
    assert model.threads[2:] == [(1, torch.get_num_threads())] * 2


class Steps(Post):
    """Gives two messages, and each other one when all before it are answered."""

    def __init__(self, messages: ReceivedMessages, answered: Callable[[], int]) -> None:
        super().__init__()
        self.messages, self.answered, self.given = messages, answered, 0

    def receive(self, wait: bool) -> ReceivedMessages:
        while wait and 2 <= self.given > self.answered():
            time.sleep(0.01)
        if wait and self.given == len(self.messages):
            raise EOFError
        if 2 <= self.given > self.answered() or self.given == len(self.messages):
            return []
        self.given += 1
        return [self.messages[self.given - 1]]


class Fragile(Sum):
    """Fails on every thread but the first, which waits for that."""

    def encode(self, ids: Sequence[Ids], **options: Any) -> Floats:
        if threading.current_thread() is not threading.main_thread():
            raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
        time.sleep(10)
        return super().encode(ids, **options)


def fail(max_concurrent_batches: int, prefetch_depth: int) -> None:
    """Run an engine of which one thread fails."""
    rig = Rig(
        budget=512,
        max_concurrent_batches=max_concurrent_batches,
        model=Fragile(),
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
    assert done.returncode == 1 and "the engine has failed" in done.stderr
