"""Time limits of clients, and the number of connections."""

import asyncio
import resource
from typing import Any

import pytest

from embedwell.http.http_limits import AllowedRequests, ConnectionLimit, Timeouts


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
    """A connection that is idle, waits for its client, or has a request that is served."""

    def __init__(self, state: str = "waits") -> None:
        self._state, self.closed = state, False

    def waits_for_client(self) -> bool:
        return self._state == "waits"

    def is_idle(self) -> bool:
        return self._state == "idle"

    def make_room(self) -> None:
        self.closed = True


def admitted(limit: ConnectionLimit, *connections: FakeConnection) -> set[AllowedRequests]:
    return {limit.admit(connection) for connection in connections}


def test_below_the_limit_none_is_closed() -> None:
    limit, first = ConnectionLimit(2), FakeConnection()
    assert admitted(limit, first, FakeConnection()) == {AllowedRequests.ALL}
    assert not first.closed


@pytest.mark.parametrize("state", ["waits", "idle"])
def test_the_one_without_activity_for_the_longest_is_closed(state: str) -> None:
    limit, first, second = ConnectionLimit(2), FakeConnection(state), FakeConnection(state)
    assert admitted(limit, first, second) == {AllowedRequests.ALL}
    limit.note_activity(first)
    assert limit.admit(FakeConnection()) is AllowedRequests.ALL
    assert second.closed and not first.closed


@pytest.mark.parametrize("other", ["busy", "idle"])
def test_one_whose_request_is_incomplete_is_closed_before_others(other: str) -> None:
    limit, kept, slow = ConnectionLimit(2), FakeConnection(other), FakeConnection("waits")
    assert admitted(limit, kept, slow, FakeConnection()) == {AllowedRequests.ALL}
    assert slow.closed and not kept.closed


def test_a_connection_that_was_refused_takes_no_place() -> None:
    limit, working, refused = ConnectionLimit(1, 0), FakeConnection("busy"), FakeConnection("busy")
    assert [limit.admit(working), limit.admit(refused)] == [
        AllowedRequests.ALL,
        AllowedRequests.NONE,
    ]
    limit.note_activity(refused)
    limit.remove(working)
    assert limit.admit(FakeConnection()) is AllowedRequests.ALL and not refused.closed


def test_a_few_more_may_send_health_checks_and_replace_each_other() -> None:
    limit, check = ConnectionLimit(1, 1), FakeConnection("waits")
    assert limit.admit(FakeConnection("busy")) is AllowedRequests.ALL
    assert admitted(limit, check, FakeConnection("busy")) == {AllowedRequests.HEALTH_CHECKS}
    assert check.closed
    assert limit.admit(FakeConnection()) is AllowedRequests.NONE


def test_a_connection_with_one_of_the_last_descriptors_replaces_another() -> None:
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    limit, last = ConnectionLimit(10), descriptors - 16
    idle = FakeConnection("idle")
    assert limit.admit(idle, last - 1) is AllowedRequests.ALL
    assert limit.admit(FakeConnection("busy"), last) is AllowedRequests.ALL and idle.closed
    assert limit.admit(FakeConnection("busy"), last) is AllowedRequests.HEALTH_CHECKS
