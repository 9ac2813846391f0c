"""Turns, with steps that say when they are taken."""

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from models.tokenizer.cooperative import Steps
from service.errors import BadRequest, Overloaded, TimedOut
from service.inputs.tokenization_queue import TokenizationQueue

LARGE = 8_000_000


class Book:
    """Notes whose step is taken; each lasts until it is let go."""

    def __init__(self) -> None:
        self.noted: list[str] = []
        self.gate = threading.Semaphore(0)

    def steps(self, name: str, count: int) -> Steps[str]:
        for _ in range(count):
            self.noted.append(name)
            assert self.gate.acquire(timeout=120)
            yield
        return name


@pytest.fixture
def book() -> Iterator[Book]:
    found = Book()
    yield found
    found.gate.release(1000)  # no thread is left behind


async def noted(book: Book, count: int) -> None:
    """Wait for so many steps."""
    while len(book.noted) < count:
        await asyncio.sleep(0.001)


def test_a_smaller_text_is_read_between_the_steps_of_larger_ones(book: Book) -> None:
    async def run() -> list[str]:
        queue = TokenizationQueue(timeout=10, max_wait=10, slice_seconds=0)
        large = [asyncio.create_task(queue.run(book.steps(n, 3), LARGE)) for n in "abc"]
        await noted(book, 2)
        small = asyncio.create_task(queue.run(book.steps("small", 1), 30_000))
        await asyncio.sleep(0.01)
        book.gate.release(100)
        return await asyncio.gather(*large, small)

    assert asyncio.run(run()) == ["a", "b", "c", "small"]
    assert book.noted.index("small") in (2, 3), "there are two threads"
    assert [book.noted.count(name) for name in "abc"] == [3, 3, 3]
    begun = book.noted.index("c")
    assert 3 in (book.noted[:begun].count(name) for name in "ab"), "who came first is read first"


def test_who_gives_up_is_read_no_further(book: Book) -> None:
    async def run() -> None:
        queue = TokenizationQueue(timeout=10, max_wait=10, slice_seconds=0)
        tasks = [asyncio.create_task(queue.run(book.steps(n, 9), LARGE)) for n in "abcd"]
        await noted(book, 2)
        await asyncio.sleep(0.01)
        for task in tasks[:3]:
            task.cancel()
        book.gate.release(100)
        assert await tasks[3] == "d"

    asyncio.run(run())
    assert sorted(book.noted) == ["a", "b", *["d"] * 9]


def test_what_is_not_read_in_time_is_given_up_whether_it_was_begun_or_not(book: Book) -> None:
    async def run() -> None:
        queue = TokenizationQueue(timeout=0.1, max_wait=10, slice_seconds=0)
        asked = [queue.run(book.steps(name, 9), LARGE) for name in "ab"]
        asked.append(queue.run(book.steps("c", 9), LARGE, spent=1))
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in found] == [TimedOut] * 3
        book.gate.release(100)
        assert await queue.run(book.steps("d", 1), LARGE) == "d"

    asyncio.run(run())
    assert sorted(book.noted) == ["a", "b", "d"]


def test_what_was_spent_before_counts(book: Book) -> None:
    async def run() -> None:
        queue = TokenizationQueue(timeout=30, max_wait=10, slice_seconds=0)
        with pytest.raises(TimedOut):
            await asyncio.wait_for(queue.run(book.steps("a", 9), LARGE, spent=29.9), 60)

    asyncio.run(run())


def slow() -> Steps[str]:
    time.sleep(0.05)
    yield
    return "measured"


def test_who_would_wait_too_long_is_refused_at_once_unless_there_is_little_to_read(
    book: Book,
) -> None:
    async def run() -> None:
        queue = TokenizationQueue(timeout=10, max_wait=1, slice_seconds=0)
        assert await queue.run(slow(), 100_000) == "measured"  # 4 MB/s or less
        first = asyncio.create_task(queue.run(book.steps("a", 1), 10 * LARGE))
        await noted(book, 1)
        with pytest.raises(Overloaded, match="would wait"):
            await queue.run(book.steps("large", 1), LARGE)
        small = asyncio.create_task(queue.run(book.steps("small", 1), 30_000))
        await asyncio.sleep(0.01)
        book.gate.release(100)
        assert [await first, await small] == ["a", "small"]

    asyncio.run(run())


def test_what_is_wrong_with_a_text_is_told_and_the_next_is_read() -> None:
    def wrong() -> Steps[str]:
        yield
        raise BadRequest("it is wrong")

    async def run() -> None:
        queue = TokenizationQueue(timeout=10, max_wait=10, slice_seconds=0)
        for _ in range(5):
            with pytest.raises(BadRequest, match="it is wrong"):
                await queue.run(wrong(), LARGE)

    asyncio.run(run())
