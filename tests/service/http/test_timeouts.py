"""Patience: one timer for all that is waited for."""

import asyncio
from typing import Any

from service.http.timeouts import Timeouts


class Waiting:
    """Tells when it was given up; or fails to."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error, self.given_up = error, asyncio.Event()

    def expire(self) -> None:
        self.given_up.set()
        if self._error is not None:
            raise self._error


def test_what_does_not_come_is_given_up_in_time_and_what_came_is_not() -> None:
    async def run() -> None:
        timeouts, late, came = Timeouts(0.1), Waiting(), Waiting()
        timeouts.begin(late)
        timeouts.begin(came)
        timeouts.end(came)
        assert not late.given_up.is_set()
        await asyncio.wait_for(late.given_up.wait(), 60)
        assert not came.given_up.is_set()

    asyncio.run(run())


def test_one_that_cannot_be_given_up_does_not_keep_the_others_waiting() -> None:
    async def run() -> None:
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        timeouts, broken = Timeouts(0.05), Waiting(RuntimeError("broken"))
        beside, after = Waiting(), Waiting()
        timeouts.begin(broken)
        timeouts.begin(beside)
        await asyncio.wait_for(beside.given_up.wait(), 60)
        timeouts.begin(after)
        await asyncio.wait_for(after.given_up.wait(), 60)
        assert [str(context["exception"]) for context in told] == ["broken"]

    asyncio.run(run())


def test_to_begin_again_does_not_make_the_wait_longer() -> None:
    async def run() -> None:
        timeouts, late = Timeouts(0.1), Waiting()
        async with asyncio.timeout(60):
            while not late.given_up.is_set():
                timeouts.begin(late)
                await asyncio.sleep(0.01)

    asyncio.run(run())
