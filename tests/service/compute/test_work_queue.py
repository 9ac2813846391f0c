"""Tests of the queue of long work, with steps that the test controls."""

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from embedwell.compute.work_queue import (
    FEW_OPERATIONS,
    WorkQueue,
    access_files_in_thread,
    run_in_thread,
)
from embedwell.errors import BadRequest, Overloaded, TimedOut
from embedwell_models.tokenizer.steps import Steps
from tests.service.pipelines import comparisons

LARGE = 8_000_000


class Recorder:
    """Records the steps of each name; a step lasts until the gate opens."""

    def __init__(self) -> None:
        self.recorded: list[str] = []
        self.gate = threading.Semaphore(0)

    def steps(self, name: str, count: int) -> Steps[str]:
        for _ in range(count):
            self.recorded.append(name)
            assert self.gate.acquire(timeout=120)
            yield
        return name


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    yield recorder
    recorder.gate.release(1000)  # let every thread finish


async def wait_for_steps(recorder: Recorder, count: int) -> None:
    """Wait until several steps have started."""
    while len(recorder.recorded) < count:
        await asyncio.sleep(0.001)


def test_a_smaller_text_is_tokenized_between_the_steps_of_larger_ones(recorder: Recorder) -> None:
    async def run() -> list[str]:
        queue = WorkQueue(timeout=60, max_wait=60, threads=1, slice_seconds=0)
        large = [asyncio.create_task(queue.run(recorder.steps(n, 3), LARGE)) for n in "abc"]
        await wait_for_steps(recorder, 1)
        small = asyncio.create_task(queue.run(recorder.steps("small", 1), 30_000))
        await asyncio.sleep(0)  # it is in the queue
        recorder.gate.release(100)
        return await asyncio.gather(*large, small)

    assert asyncio.run(run()) == ["a", "b", "c", "small"]
    assert recorder.recorded == ["a", "small", "a", "a", *"bbb", *"ccc"]


def test_a_slice_has_all_steps_that_fit(recorder: Recorder) -> None:
    async def run() -> None:
        queue = WorkQueue(timeout=60, max_wait=60, threads=1, slice_seconds=60)
        large = asyncio.create_task(queue.run(recorder.steps("large", 3), LARGE))
        await wait_for_steps(recorder, 1)
        small = asyncio.create_task(queue.run(recorder.steps("small", 1), 30_000))
        await asyncio.sleep(0)  # it is in the queue
        recorder.gate.release(100)
        await asyncio.gather(large, small)

    asyncio.run(run())
    assert recorder.recorded == ["large", "large", "large", "small"]


def test_a_cancelled_request_is_tokenized_no_further(recorder: Recorder) -> None:
    async def run() -> None:
        queue = WorkQueue(timeout=120, max_wait=120, slice_seconds=0)
        tasks = [asyncio.create_task(queue.run(recorder.steps(n, 9), LARGE)) for n in "abcd"]
        await wait_for_steps(recorder, 2)
        for task in tasks[:3]:
            task.cancel()
        recorder.gate.release(100)
        assert await tasks[3] == "d"

    asyncio.run(run())
    assert sorted(recorder.recorded) == ["a", "b", *["d"] * 9]


def test_a_cancelled_request_holds_its_slot_until_its_thread_ends(recorder: Recorder) -> None:
    async def run() -> None:
        queue = WorkQueue(timeout=120, max_wait=120, slice_seconds=0)
        tasks = [asyncio.create_task(queue.run(recorder.steps(n, 9), LARGE)) for n in "ab"]
        await wait_for_steps(recorder, 2)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        large = asyncio.create_task(queue.run(recorder.steps("large", 1), LARGE))
        await asyncio.sleep(0.01)
        small = asyncio.create_task(queue.run(recorder.steps("small", 1), 30_000))
        await asyncio.sleep(0.01)
        assert sorted(recorder.recorded) == ["a", "b"], "both threads are busy"
        recorder.gate.release(1)
        await wait_for_steps(recorder, 3)
        recorder.gate.release(100)
        assert [await large, await small] == ["large", "small"]

    asyncio.run(run())
    assert recorder.recorded[2:] == ["small", "large"]


def test_a_request_that_is_cancelled_as_its_turn_comes_gives_its_slot_back(
    recorder: Recorder,
) -> None:
    async def run() -> None:
        queue = WorkQueue(timeout=120, max_wait=120, threads=1, slice_seconds=0)

        async def run_and_cancel_the_next() -> None:
            await queue.run(recorder.steps("a", 1), LARGE)
            following.cancel()  # it has the slot of the first, but has not run since

        first = asyncio.create_task(run_and_cancel_the_next())
        following = asyncio.create_task(queue.run(recorder.steps("b", 1), LARGE))
        await wait_for_steps(recorder, 1)
        recorder.gate.release(100)
        await asyncio.gather(first, following, return_exceptions=True)
        assert following.cancelled()
        assert await queue.run(recorder.steps("c", 1), LARGE) == "c"

    asyncio.run(run())
    assert recorder.recorded == ["a", "c"]


def test_waiting_and_started_requests_time_out(recorder: Recorder) -> None:
    async def run() -> None:
        queue = WorkQueue(timeout=1000, max_wait=1000, slice_seconds=0)
        requests = [
            queue.run(recorder.steps(name, 9), LARGE, spent=spent)
            for name, spent in (("a", 999.9), ("b", 999.9), ("c", 1001))
        ]
        async with asyncio.timeout(120):
            errors = await asyncio.gather(*requests, return_exceptions=True)
        assert [type(error) for error in errors] == [TimedOut] * 3
        await wait_for_steps(recorder, 2)
        recorder.gate.release(100)
        assert await queue.run(recorder.steps("d", 1), LARGE) == "d"

    asyncio.run(run())
    assert sorted(recorder.recorded) == ["a", "b", "d"]


def slow() -> Steps[str]:
    time.sleep(0.05)
    yield
    return "measured"


def test_a_large_request_that_would_wait_too_long_is_refused(
    recorder: Recorder,
) -> None:
    async def run() -> None:
        queue = WorkQueue(timeout=120, max_wait=1, max_wait_large=5, slice_seconds=0)
        assert await queue.run(slow(), 100_000) == "measured"  # 4 MB/s or less
        first = asyncio.create_task(queue.run(recorder.steps("a", 1), 10 * LARGE))
        await wait_for_steps(recorder, 1)
        with pytest.raises(Overloaded, match="s for reading the inputs, but the limit"):
            await queue.run(recorder.steps("large", 1), LARGE)
        small = asyncio.create_task(queue.run(recorder.steps("small", 1), 30_000))
        await asyncio.sleep(0.01)
        recorder.gate.release(100)
        assert [await first, await small] == ["a", "small"]

    asyncio.run(run())


def test_the_first_rate_is_taken_whole_and_later_ones_move_the_average() -> None:
    queue = WorkQueue(timeout=120, max_wait=120)
    queue._update_rate(1000.0)
    assert queue._rate.latest == 1000.0
    queue._update_rate(2000.0)
    assert queue._rate.latest == pytest.approx(1200.0)


def test_the_rate_is_that_of_all_threads() -> None:
    queue = WorkQueue(timeout=120, max_wait=120, threads=1000)
    asyncio.run(queue.run(slow(), 100_000))
    assert queue._rate.latest > 100_000 / 0.05, "a single thread takes 0.05 s or more"


def test_an_error_is_raised_and_the_next_text_is_tokenized() -> None:
    def wrong() -> Steps[str]:
        yield
        raise BadRequest("it is wrong")

    async def run() -> None:
        queue = WorkQueue(timeout=120, max_wait=120, slice_seconds=0)
        for _ in range(5):
            with pytest.raises(BadRequest, match="it is wrong"):
                await queue.run(wrong(), LARGE)

    asyncio.run(run())


def test_a_rate_that_is_not_measured_yet_limits_the_wait(recorder: Recorder) -> None:
    async def run() -> None:
        queue = WorkQueue(
            *(120, 1, 5), name="the search", threads=1, rate=LARGE / 4, slice_seconds=0
        )
        first, second = (
            asyncio.create_task(queue.run(recorder.steps(name, 2), LARGE)) for name in "ab"
        )
        await wait_for_steps(recorder, 1)
        with pytest.raises(Overloaded, match="s for the search, but the limit"):
            await queue.run(recorder.steps("large", 1), LARGE)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        third = asyncio.create_task(queue.run(recorder.steps("c", 1), LARGE))
        recorder.gate.release(100)
        assert [await first, await third] == ["a", "c"]

    asyncio.run(run())
    assert recorder.recorded == ["a", "a", "c"], "there is one thread"


def test_the_message_of_a_timeout_names_the_work(recorder: Recorder) -> None:
    async def run() -> None:
        queue = WorkQueue(0.1, 10, name="the search", slice_seconds=0)
        with pytest.raises(TimedOut, match="the search took longer"):
            await queue.run(recorder.steps("a", 9), LARGE)

    asyncio.run(run())


@pytest.mark.parametrize("small", [True, False])
def test_only_small_work_is_done_on_the_event_loop(small: bool) -> None:
    async def where() -> tuple[threading.Thread, threading.Thread]:
        return threading.current_thread(), await run_in_thread(
            threading.current_thread, small=small
        )

    loop, work = asyncio.run(where())
    assert (work is loop) == small


def test_an_error_reaches_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        asyncio.run(run_in_thread(lambda: 1 // 0, small=False))


def current_thread() -> Steps[threading.Thread]:
    yield
    return threading.current_thread()


def wait_for(event: threading.Event) -> Steps[bool]:
    yield
    return event.wait(120)


@pytest.mark.parametrize(("operations", "inline"), [(FEW_OPERATIONS, True), (10**7, False)])
def test_only_few_operations_are_done_on_the_event_loop(operations: int, inline: bool) -> None:
    thread = asyncio.run(comparisons().run(current_thread(), operations))
    assert (thread is threading.current_thread()) == inline


def test_a_body_is_read_while_vectors_are_compared() -> None:
    read = threading.Event()

    async def run() -> None:
        comparing = asyncio.create_task(comparisons().run(wait_for(read), 10**7))
        await asyncio.sleep(0)  # it is handed to its thread
        await run_in_thread(read.set, small=False)
        assert await comparing, "the body was read only after the comparison"

    asyncio.run(run())


def test_work_that_would_wait_too_long_is_refused_and_few_operations_are_not() -> None:
    done = threading.Event()

    async def run() -> None:
        queue = comparisons(rate=1000, max_wait=1)  # a billion operations per second
        first = asyncio.create_task(queue.run(wait_for(done), 5 * 10**9))
        await asyncio.sleep(0)
        with pytest.raises(
            Overloaded, match=r"would wait 4\.8 s .* the limit is 1\.0 s"
        ) as refused:
            await queue.run(current_thread(), 10**10)
        assert 4 <= (refused.value.retry_after or 0) <= 8
        assert await queue.run(current_thread(), FEW_OPERATIONS) is threading.current_thread()
        done.set()
        assert await first
        assert await queue.run(current_thread(), 10**10)

    asyncio.run(run())


def test_a_cancellation_waits_for_the_thread_that_accesses_files() -> None:
    started, end, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        assert end.wait(120)
        done.set()

    async def run() -> None:
        task = asyncio.create_task(access_files_in_thread(work))
        assert await asyncio.to_thread(started.wait, 120)
        task.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not task.done()
        end.set()
        await asyncio.wait([task])
        assert task.cancelled() and done.is_set()

    asyncio.run(run())
