"""uvicorn as this server runs it."""

import asyncio
import logging

import pytest
import uvicorn

from embedwell.http.protocol.server import Server, vital


def test_a_failed_vital_task_is_reported_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        raise FileNotFoundError("the socket is gone")

    failed: list[None] = []
    with caplog.at_level(logging.CRITICAL):
        asyncio.run(vital(work, lambda: failed.append(None))())
    assert failed == [None] and "the socket is gone" in caplog.text


def test_a_cancelled_vital_task_is_not_reported() -> None:
    async def run() -> None:
        working = asyncio.create_task(vital(lambda: asyncio.sleep(60), failed.set)())
        await asyncio.sleep(0)
        working.cancel()
        await asyncio.wait([working])
        assert working.cancelled() and not failed.is_set()

    failed = asyncio.Event()
    asyncio.run(run())


def test_a_server_stops_after_the_delay_or_at_the_second_signal() -> None:
    async def run() -> None:
        server = Server(uvicorn.Config("any"), drain_delay=1000)
        server.stop()
        assert server.stopping and not server._uvicorn.should_exit
        server.stop()
        assert server._uvicorn.should_exit

    asyncio.run(run())
