"""Admission: expected wait = tokens queued / tokens per second."""

from collections.abc import Iterator

import pytest

from service.admission import Admission
from service.board import Board, table
from service.errors import Overloaded, TooLarge


@pytest.fixture
def boards() -> Iterator[list[Board]]:
    """Those of two processes."""
    with table(2) as file:
        yield [Board.shared(file, 2, row) for row in (0, 1)]


def is_open(admission: Admission) -> bool:
    """Whether a query would be admitted."""
    try:
        admission.check(1)
    except Overloaded:
        return False
    return True


def test_nothing_is_refused_before_a_rate_is_known() -> None:
    admission = Admission(1.0, lambda: 0.0, Board.alone())
    with admission.admit(10**9), admission.admit(10**9):
        assert is_open(admission) and admission.backlog == 0


def test_a_wait_beyond_the_limit_is_refused_with_the_time_to_return() -> None:
    admission = Admission(1.0, lambda: 100.0, Board.alone())
    with admission.admit(400):  # however large, a request that finds no queue is admitted
        assert admission.backlog == 4
        with pytest.raises(Overloaded) as refused, admission.admit(400):
            raise AssertionError("admitted")
        assert refused.value.retry == pytest.approx(3.0)
    assert admission.queued == 0 and is_open(admission)


def test_a_wait_of_just_the_limit_is_admitted() -> None:
    admission = Admission(1.0, lambda: 60.0, Board.alone())
    with admission.admit(60), admission.admit(60):
        assert not is_open(admission)


def test_a_request_waits_for_no_more_than_twice_of_what_is_no_larger() -> None:
    admission = Admission(1.0, lambda: 100.0, Board.alone())
    with admission.admit(900), admission.admit(20), admission.admit(20):
        assert admission.backlog == pytest.approx(9.4) and is_open(admission)
        with (
            pytest.raises(Overloaded, match=r"wait 9\.4 s; the limit is 1\.0 s") as refused,
            admission.admit(1000),
        ):
            raise AssertionError("admitted")
        assert refused.value.retry == pytest.approx(8.4)
        with admission.admit(20), pytest.raises(Overloaded, match=r"1\.2 s"), admission.admit(20):
            raise AssertionError("admitted")
    assert admission.queued == 0
    with admission.admit(20), admission.admit(20):
        assert is_open(admission), "what was answered is waited for"


def timely(rate: float, measured: float) -> Admission:
    """One of a server that gives up on a request after ten seconds."""
    board = Board.alone()
    return Admission(5.0, lambda: rate, board, timeout=10.0, measured=lambda: measured)


def test_what_clearly_takes_longer_than_the_timeout_is_refused_with_what_fits() -> None:
    admission = timely(100.0, 100.0)
    with admission.admit(1500):
        pass
    with (
        pytest.raises(
            TooLarge, match=r"1501 tokens .* 15 s, .* 10 s; .* 1000 at a time"
        ) as refused,
        admission.admit(1501),
    ):
        raise AssertionError("admitted")
    assert refused.value.code == "too_many_tokens"


def test_a_wait_after_which_too_little_time_is_left_is_refused() -> None:
    admission = timely(100.0, 100.0)
    with admission.admit(400):
        with admission.admit(1000):
            pass
        with pytest.raises(Overloaded, match=r"wait 4\.0 s; the limit is 3\.0 s") as refused:
            admission.check(1200)
        assert refused.value.retry == pytest.approx(1.0)


def test_nothing_is_too_large_for_a_rate_that_was_not_measured_under_load() -> None:
    admission = timely(100.0, 0.0)
    with admission.admit(10**9):
        assert admission.queued == 10**9


def test_what_need_not_be_computed_waits_for_nothing() -> None:
    admission = Admission(1.0, lambda: 100.0, Board.alone())
    with admission.admit(900), admission.admit(20), admission.admit(60):
        assert not is_open(admission)
        with admission.admit(0):
            assert admission.queued == 980


def test_what_fails_leaves_the_queue() -> None:
    admission = Admission(1.0, lambda: 100.0, Board.alone())
    with pytest.raises(RuntimeError), admission.admit(100):
        raise RuntimeError
    assert admission.queued == 0


def test_what_all_processes_have_queued_is_waited_for(boards: list[Board]) -> None:
    one, other = (Admission(1.0, lambda: 100.0, board) for board in boards)
    with one.admit(150):
        assert other.queued == 150
        with pytest.raises(Overloaded), other.admit(150):
            raise AssertionError("admitted")
    with other.admit(50):
        assert one.queued == 50


def test_what_a_process_that_died_had_queued_is_forgotten(boards: list[Board]) -> None:
    first, second = (Admission(1.0, lambda: 100.0, board) for board in boards)
    with second.admit(60):
        assert first.queued == 60
        boards[0].bury(1)
        assert first.queued == 0
        with first.admit(500), first.admit(10):
            assert first.queued == 510
