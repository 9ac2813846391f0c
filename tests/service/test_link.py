"""The link to an engine that answers what it is told to."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import numpy as np

from service.board import Board
from service.engine.link import Link
from service.engine.messages import POOLED, Job, Result, pack_outcomes, unpack_jobs
from service.engine.wire import Inbox, pack

DESCRIPTION = {
    **dict.fromkeys(("dim", "max_length", "num_layers", "max_positions", "vocab_size"), 1),
    **dict.fromkeys(("family", "device", "dtype", "fingerprint"), "x"),
    **{"pooling": ["mean"], "normalize": True, "trials": [], "threads": 1, "max_batch_tokens": 1},
}
VECTOR = np.ones((1, 1), dtype=np.float32)


async def engine(address: Path, answers: Callable[[int], bool]) -> asyncio.Server:
    """Answers the jobs of so many tokens that it should."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(pack(["description", DESCRIPTION]))
        inbox = Inbox()
        while data := await reader.read(1 << 16):
            for (verb, content), body in inbox.feed(data):
                for number, job in unpack_jobs(content, body) if verb == "jobs" else ():
                    if answers(len(job.rows[0])):
                        writer.write(pack(*pack_outcomes([(number, Result(VECTOR, 1, 2, 3.0))])))
        writer.close()

    return await asyncio.start_unix_server(serve, address)


async def stalls(address: Path, answers: Callable[[int], bool], jobs: int) -> list[str]:
    """How often an engine seems to hang, while it is given jobs of nine tokens."""
    found: list[str] = []
    server = await engine(address, answers)
    on_stall = lambda: found.append("hangs")  # noqa: E731
    link = Link(str(address), Board.alone(), on_stall=on_stall, stall=0.2)
    running = asyncio.create_task(link.run())
    await asyncio.sleep(0.1)
    for _ in range(jobs):
        await link.submit(Job(POOLED, [np.zeros(9, dtype=np.int32)]), 5)
        await asyncio.sleep(0.05)
    assert link.embeds == bool(jobs)
    await asyncio.sleep(0.3 if not jobs else 0)
    running.cancel()
    await asyncio.wait([running])
    server.close()
    return found


def test_an_engine_that_answers_nothing_hangs(tmp_path: Path) -> None:
    assert asyncio.run(stalls(tmp_path / "s", lambda tokens: False, 0)) == ["hangs"]


def test_an_engine_that_answers_others_is_only_busy(tmp_path: Path) -> None:
    assert asyncio.run(stalls(tmp_path / "s", lambda tokens: tokens == 9, 10)) == []
