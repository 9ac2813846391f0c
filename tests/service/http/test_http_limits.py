"""Time limits of clients, and the number of connections."""

import asyncio
from typing import Any

from embedwell.http.http_limits import ConnectionLimit, Timeouts


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


class FakeConnection:
    """A connection that waits for its client, or does not."""

    def __init__(self, waits: bool = True) -> None:
        self.waits, self.aborted = waits, False

    def waits_for_client(self) -> bool:
        return self.waits

    def abort(self) -> None:
        self.aborted = True


def test_below_the_limit_none_is_closed() -> None:
    limit, first = ConnectionLimit(2), FakeConnection()
    assert limit.admit(first) and limit.admit(FakeConnection())
    assert not first.aborted


def test_the_one_without_activity_for_the_longest_is_closed() -> None:
    limit, first, second = ConnectionLimit(2), FakeConnection(), FakeConnection()
    assert limit.admit(first) and limit.admit(second)
    limit.note_activity(first)
    assert limit.admit(FakeConnection())
    assert second.aborted and not first.aborted


def test_one_whose_client_waits_for_the_server_is_kept() -> None:
    limit, working, slow = ConnectionLimit(2), FakeConnection(waits=False), FakeConnection()
    assert limit.admit(working) and limit.admit(slow)
    assert limit.admit(FakeConnection())
    assert slow.aborted and not working.aborted


def test_a_connection_that_was_refused_takes_no_place() -> None:
    limit, working, refused = ConnectionLimit(1), FakeConnection(waits=False), FakeConnection()
    assert limit.admit(working) and not limit.admit(refused)
    limit.note_activity(refused)
    limit.remove(working)
    assert limit.admit(FakeConnection()) and not refused.aborted
