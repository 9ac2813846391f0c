"""Tests of comparisons: little work inline, much in the thread of a queue."""

import asyncio
import threading

import pytest

from embedwell.errors import Overloaded
from embedwell.limits.comparisons import FEW_OPERATIONS
from embedwell.limits.run_in_thread import run_in_thread
from embedwell_models.tokenizer.steps import Steps
from tests.service.limits.comparing import comparisons


def current_thread() -> Steps[threading.Thread]:
    yield
    return threading.current_thread()


def wait_for(event: threading.Event) -> Steps[bool]:
    yield
    return event.wait(60)


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
