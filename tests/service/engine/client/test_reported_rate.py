"""Tests of when the rate that an engine reports is reliable."""

from embedwell.engine.client.reported_rate import ReportedRate


class Clock:
    """Stands until it is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_rate_is_reliable_after_several_changes() -> None:
    rate = ReportedRate(Clock())
    assert rate.latest == rate.reliable_rate == 0
    for reported in (3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 4.0, 5.0, 6.0, 7.0):
        rate.update(reported)
        assert (rate.latest, rate.reliable_rate) == (reported, 0)
    rate.update(8.0)
    assert rate.latest == rate.reliable_rate == 8


def test_a_rate_that_was_measured_long_ago_is_not_reliable() -> None:
    clock = Clock()
    rate = ReportedRate(clock)
    for reported in range(1, 9):
        rate.update(reported)
    clock.now = 200
    rate.update(8)  # of a query, which measures nothing
    assert rate.reliable_rate == 8
    clock.now = 400
    rate.update(8)
    assert (rate.latest, rate.reliable_rate) == (8, 0)
    rate.update(9)
    assert rate.reliable_rate == 9
