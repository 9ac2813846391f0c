"""The limit on connections: which one is closed for a new one, and when none is."""

from embedwell.http.protocol.connection_limit import ConnectionLimit


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
