"""Admission: expected wait = tokens queued / tokens per second."""

from collections.abc import Iterator

import pytest

from embedwell.compute.admission import Admission, KnownRate, check_unread
from embedwell.engine.wire.engine_state import CounterSlot, SharedCounters, counters_file
from embedwell.errors import Overloaded, TooLarge


@pytest.fixture
def tables() -> Iterator[list[SharedCounters]]:
    """Shared counters of two processes."""
    with counters_file(2) as file:
        yield [SharedCounters.attach(file, 2, row) for row in (0, 1)]


def is_open(admission: Admission) -> bool:
    """Whether a query would be admitted."""
    try:
        admission.check(1)
    except Overloaded:
        return False
    return True


def test_nothing_is_refused_while_the_rate_is_unknown() -> None:
    admission = Admission(1.0, KnownRate(0.0), SharedCounters.private())
    with admission.admit(10**9), admission.admit(10**9):
        assert is_open(admission) and admission.backlog_seconds == 0


def test_a_wait_beyond_the_limit_is_refused_with_a_retry_time() -> None:
    admission = Admission(1.0, KnownRate(100.0), SharedCounters.private())
    with admission.admit(400):  # however large, a request that finds no queue is admitted
        assert admission.backlog_seconds == 4
        with pytest.raises(Overloaded) as refused, admission.admit(400):
            raise AssertionError("admitted")
        assert 4.0 <= (refused.value.retry_after or 0) <= 6.0
    assert admission.queued_tokens == 0 and is_open(admission)


def test_a_wait_of_just_the_limit_is_admitted() -> None:
    admission = Admission(1.0, KnownRate(60.0), SharedCounters.private())
    with admission.admit(60), admission.admit(60):
        assert not is_open(admission)


def test_a_request_waits_for_at_most_twice_the_requests_no_larger_than_itself() -> None:
    admission = Admission(1.0, KnownRate(100.0), SharedCounters.private())
    with admission.admit(900), admission.admit(20), admission.admit(20):
        assert admission.backlog_seconds == pytest.approx(9.4) and is_open(admission)
        with (
            pytest.raises(
                Overloaded, match=r"wait 9\.4 s for the engine, but the limit is 1\.0 s"
            ) as refused,
            admission.admit(1000),
        ):
            raise AssertionError("admitted")
        assert 9.4 <= (refused.value.retry_after or 0) <= 14.1
        with admission.admit(20), pytest.raises(Overloaded, match=r"1\.2 s"), admission.admit(20):
            raise AssertionError("admitted")
    assert admission.queued_tokens == 0
    with admission.admit(20), admission.admit(20):
        assert is_open(admission), "what was answered is waited for"


def with_timeout(rate: float, reliable_rate: float) -> Admission:
    """Admission of a server with a timeout of ten seconds."""
    counters = SharedCounters.private()
    return Admission(5.0, KnownRate(rate, reliable_rate), counters, timeout=10.0)


def test_a_request_that_would_time_out_is_refused_with_the_size_that_fits() -> None:
    admission = with_timeout(100.0, 100.0)
    with admission.admit(1500):
        pass
    with (
        pytest.raises(TooLarge, match=r"1501 tokens .* 15 s, .* 10 s; .* 1000 tokens") as refused,
        admission.admit(1501),
    ):
        raise AssertionError("admitted")
    assert refused.value.code == "too_many_tokens"


def test_one_engine_computes_a_request_however_many_there_are() -> None:
    admission = with_timeout(400.0, 100.0)
    admission.check(1500)
    with pytest.raises(TooLarge, match=r"1501 tokens take about 15 s"):
        admission.check(1501)


def test_a_wait_that_leaves_too_little_time_is_refused() -> None:
    admission = with_timeout(100.0, 100.0)
    with admission.admit(400):
        admission.check(600)
        with pytest.raises(
            Overloaded, match=r"wait 4\.0 s for the engine, but the limit is 3\.0 s"
        ) as refused:
            admission.check(700)
        assert 4.0 <= (refused.value.retry_after or 0) <= 6.0
        admission.check(500, spent=1)
        with pytest.raises(
            Overloaded, match=r"wait 4\.0 s for the engine, but the limit is 3\.0 s"
        ):
            admission.check(500, spent=2)
        with pytest.raises(Overloaded, match=r"but the limit is 0\.0 s"):
            admission.check(500, spent=20)
        with pytest.raises(Overloaded, match=r"limit is 3\.0 s"), admission.admit(500, spent=2):
            raise AssertionError("admitted")
    admission.check(1500)


def test_a_list_that_would_time_out_after_its_wait_is_refused_at_once_with_both_limits() -> None:
    """A server with its default limits: a wait of up to the timeout is allowed."""
    admission = Admission(
        *(2.0, KnownRate(100.0), SharedCounters.private()), max_wait_large=120.0, timeout=120.0
    )
    with admission.admit(3000), admission.admit(3000), admission.admit(3000):
        admission.check(3000)
        both = r"120 s for large ones; this one takes 40\.0 s, and a request times out after 120 s"
        with pytest.raises(
            Overloaded, match=rf"wait 90\.0 s for the engine, but the limit is 80\.0 s .*{both}"
        ):
            admission.check(4000)


def test_nothing_is_too_large_without_a_reliable_rate() -> None:
    admission = with_timeout(100.0, 0.0)
    with admission.admit(10**9):
        assert admission.queued_tokens == 10**9


def test_a_request_without_tokens_to_compute_does_not_wait() -> None:
    admission = Admission(1.0, KnownRate(100.0), SharedCounters.private())
    with admission.admit(900), admission.admit(20), admission.admit(60):
        assert not is_open(admission)
        with admission.admit(0):
            assert admission.queued_tokens == 980


def test_a_failed_request_is_not_queued_any_more() -> None:
    admission = Admission(1.0, KnownRate(100.0), SharedCounters.private())
    with pytest.raises(RuntimeError), admission.admit(100):
        raise RuntimeError
    assert admission.queued_tokens == 0


def test_the_queues_of_all_processes_count(tables: list[SharedCounters]) -> None:
    first, second = (Admission(1.0, KnownRate(100.0), counters) for counters in tables)
    with first.admit(150):
        assert second.queued_tokens == 150
        with pytest.raises(Overloaded), second.admit(150):
            raise AssertionError("admitted")
    with second.admit(50):
        assert first.queued_tokens == 50


def test_the_queue_of_a_dead_process_does_not_count(tables: list[SharedCounters]) -> None:
    first, second = (Admission(1.0, KnownRate(100.0), counters) for counters in tables)
    with second.admit(60):
        assert first.queued_tokens == 60
        tables[0].clear_gauges(1)
        assert first.queued_tokens == 0
        with first.admit(500), first.admit(10):
            assert first.queued_tokens == 510


def test_retry_times_are_after_the_queue_and_spread() -> None:
    admission, seconds = Admission(2.0, KnownRate(100.0), SharedCounters.private()), set()
    with admission.admit(800):
        for _ in range(500):
            with pytest.raises(Overloaded) as refused:
                admission.check(1000)
            seconds.add(int(refused.value.headers["retry-after"]))
    assert seconds == {8, 9, 10, 11, 12}


def test_a_large_request_may_wait_longer_and_the_error_names_both_limits() -> None:
    counters = SharedCounters.private()
    admission = Admission(2.0, KnownRate(100.0), counters, max_wait_large=10.0)
    both = r"\(EMBEDWELL_MAX_WAIT is 2 s for small .*, EMBEDWELL_MAX_WAIT_LARGE 10 s for large"
    with admission.admit(900):
        admission.check(2049)
        with pytest.raises(
            Overloaded, match=rf"wait 9\.0 s for the engine, but the limit is 2\.0 s {both}"
        ):
            admission.check(2048)
        with (
            admission.admit(200),
            pytest.raises(
                Overloaded, match=rf"wait 11\.0 s for the engine, but the limit is 10\.0 s {both}"
            ),
        ):
            admission.check(2049)


@pytest.mark.parametrize(
    ("wait", "seconds"),
    [(1.01, r"1\.01 s .* 1\.00 s"), (1.000004, r"1\.000004 s .* 1\.000000 s")],
)
def test_the_error_shows_that_the_wait_exceeds_the_limit(wait: float, seconds: str) -> None:
    admission = Admission(1.0, KnownRate(100 / wait), SharedCounters.private())
    with admission.admit(100), pytest.raises(Overloaded, match=seconds):
        admission.check(1000)


def refuses_unread(*admissions: Admission, body_bytes: int) -> bool:
    try:
        check_unread(admissions, body_bytes)
    except Overloaded as error:
        assert "would wait" in error.message and error.retry_after
        return True
    return False


def test_a_body_is_refused_unread_only_if_its_size_waits_too_long() -> None:
    admission = Admission(1.0, KnownRate(100.0), SharedCounters.private())
    with admission.admit(300, body_bytes=1500):
        assert refuses_unread(admission, body_bytes=1500)
        assert not refuses_unread(admission, body_bytes=600), "120 tokens wait for no larger ones"
        with admission.admit(60, body_bytes=300):
            assert refuses_unread(admission, body_bytes=1)
    assert not refuses_unread(admission, body_bytes=1500)


def test_a_body_that_may_be_a_large_request_has_the_longer_limit() -> None:
    admission = Admission(1.0, KnownRate(100.0), SharedCounters.private(), max_wait_large=9.0)
    with admission.admit(600, body_bytes=3000), admission.admit(100, body_bytes=1000):
        assert refuses_unread(admission, body_bytes=9000)
        assert not refuses_unread(admission, body_bytes=12_000)


def test_some_requests_are_read_although_they_could_be_refused_unread() -> None:
    admission = Admission(1.0, KnownRate(100.0), SharedCounters.private())
    with admission.admit(300, body_bytes=1500):
        refused = [refuses_unread(admission, body_bytes=1500) for _ in range(1000)]
        assert 0.9 < sum(refused) / len(refused) < 1
        with pytest.raises(Overloaded), admission.admit(300, body_bytes=60_000):
            raise AssertionError("admitted")
        assert not refuses_unread(admission, body_bytes=1500), "it may have as few tokens"


def test_several_models_refuse_unread_only_together() -> None:
    busy, free = (Admission(1.0, KnownRate(100.0), SharedCounters.private()) for _ in range(2))
    with busy.admit(300, body_bytes=1500):
        assert not refuses_unread(busy, free, body_bytes=1500)
        with free.admit(300, body_bytes=1500):
            assert refuses_unread(busy, free, body_bytes=1500)
    assert not refuses_unread(body_bytes=1500), "no model refuses unread"


def test_the_time_of_the_last_use_is_recorded() -> None:
    counters = SharedCounters.private()
    with Admission(1.0, KnownRate(100.0), counters).admit(1):
        assert counters.row[CounterSlot.LAST_USED] > 0
