"""The link to an engine that answers what it is told to."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

import numpy as np
import pytest

from service.board import Board
from service.engine.link import Link
from service.engine.messages import POOLED, Job, Result, pack_outcomes, unpack_jobs
from service.engine.wire import Inbox, pack

DESCRIPTION = {
    **dict.fromkeys(("dim", "max_length", "num_layers", "max_positions", "vocab_size"), 1),
    **dict.fromkeys(("family", "device", "dtype", "fingerprint"), "x"),
    **{"pooling": ["mean"], "normalize": True, "trials": [], "threads": 1, "max_batch_tokens": 1},
    "kernels": None,
}
VECTOR = np.ones((1, 1), dtype=np.float32)


class Engine:
    """Answers the jobs of so many tokens that it should."""

    def __init__(self, answers: Callable[[int], bool]) -> None:
        self._answers, self._serving = answers, set[asyncio.Task[None]]()

    def ask(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        self._serving.add(asyncio.create_task(self._serve(theirs)))
        return ours

    async def _serve(self, end: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=end)
        writer.write(pack(["description", DESCRIPTION]))
        inbox = Inbox()
        while data := await reader.read(1 << 16):
            for (verb, content), body in inbox.feed(data):
                for number, job in unpack_jobs(content, body) if verb == "jobs" else ():
                    if self._answers(len(job.rows[0])):
                        writer.write(pack(*pack_outcomes([(number, Result(VECTOR, 1, 2, 3.0))])))
        writer.close()


async def stalls(answers: Callable[[int], bool], jobs: int) -> list[str]:
    """How often an engine seems to hang, while it is given jobs of nine tokens."""
    found: list[str] = []
    on_stall = lambda: found.append("hangs")  # noqa: E731
    link = Link(Engine(answers).ask, Board.alone(), on_stall=on_stall, stall=0.2)
    running = asyncio.create_task(link.run())
    await asyncio.sleep(0.1)
    for _ in range(jobs):
        await link.submit(Job(POOLED, [np.zeros(9, dtype=np.int32)]), 5)
        await asyncio.sleep(0.05)
    assert link.embeds == bool(jobs)
    await asyncio.sleep(0.3 if not jobs else 0)
    running.cancel()
    await asyncio.wait([running])
    return found


def test_an_engine_that_answers_nothing_hangs() -> None:
    assert asyncio.run(stalls(lambda tokens: False, 0)) == ["hangs"]


def test_an_engine_that_answers_others_is_only_busy() -> None:
    assert asyncio.run(stalls(lambda tokens: tokens == 9, 10)) == []


def test_a_line_that_cannot_be_had_is_asked_for_again_until_it_can(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        engine, full = Engine(lambda tokens: True), [OSError(errno.EMFILE, "Too many open files")]

        def ask() -> socket.socket:
            if full:
                raise full.pop()
            return engine.ask()

        ready = asyncio.Event()
        link = Link(ask, Board.alone(), lambda _: ready.set())
        running = asyncio.create_task(link.run())
        async with asyncio.timeout(20):
            await ready.wait()
        running.cancel()
        await asyncio.wait([running])

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert "there is no line to the engine: [Errno 24] Too many open files" in caplog.text


def test_what_computes_is_described_before_its_first_answer() -> None:
    # Else vectors of another engine, of which some are kept, could be taken for its own.
    async def run() -> None:
        link = Link(Engine(lambda tokens: tokens == 9).ask, Board.alone())
        running = asyncio.create_task(link.run())
        await asyncio.sleep(0.1)
        assert not link.embeds
        await link.submit(Job(POOLED, [np.zeros(9, dtype=np.int32)]), 5)
        assert link.description is not None
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(run())
