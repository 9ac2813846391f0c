"""One timer for all timeouts."""

import asyncio
from typing import Any

from embedwell.http.timeouts import Timeouts


class Deadline:
    """Records that it has expired, and may then raise an error."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error, self.expired = error, asyncio.Event()

    def expire(self) -> None:
        self.expired.set()
        if self._error is not None:
            raise self._error


def test_only_unfinished_waits_expire() -> None:
    async def run() -> None:
        timeouts, late, finished = Timeouts(0.1), Deadline(), Deadline()
        timeouts.begin(late)
        timeouts.begin(finished)
        timeouts.end(finished)
        assert not late.expired.is_set()
        await asyncio.wait_for(late.expired.wait(), 60)
        assert not finished.expired.is_set()

    asyncio.run(run())


def test_an_error_on_expiry_does_not_affect_the_others() -> None:
    async def run() -> None:
        errors: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        timeouts, failing = Timeouts(0.05), Deadline(RuntimeError("broken"))
        second, third = Deadline(), Deadline()
        timeouts.begin(failing)
        timeouts.begin(second)
        await asyncio.wait_for(second.expired.wait(), 60)
        timeouts.begin(third)
        await asyncio.wait_for(third.expired.wait(), 60)
        assert [str(context["exception"]) for context in errors] == ["broken"]

    asyncio.run(run())


def test_beginning_again_does_not_extend_the_timeout() -> None:
    async def run() -> None:
        timeouts, late = Timeouts(0.1), Deadline()
        async with asyncio.timeout(60):
            while not late.expired.is_set():
                timeouts.begin(late)
                await asyncio.sleep(0.01)

    asyncio.run(run())
