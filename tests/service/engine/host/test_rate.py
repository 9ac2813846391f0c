"""The rate that an engine reports, and when it is relied on."""

from service.engine.host.rate import Rate


class Clock:
    """Stands until it is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_rate_that_has_not_changed_often_is_that_of_a_cold_pass() -> None:
    rate = Rate(Clock())
    assert rate.latest == rate.measured == 0
    for reported in (3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 4.0, 5.0, 6.0, 7.0):
        rate.note(reported)
        assert (rate.latest, rate.measured) == (reported, 0)
    rate.note(8.0)
    assert rate.latest == rate.measured == 8


def test_a_rate_that_was_measured_long_ago_is_not_relied_on() -> None:
    clock = Clock()
    rate = Rate(clock)
    for reported in range(1, 9):
        rate.note(reported)
    clock.now = 200
    rate.note(8)  # of a query, which measures nothing
    assert rate.measured == 8
    clock.now = 400
    rate.note(8)
    assert (rate.latest, rate.measured) == (8, 0)
    rate.note(9)
    assert rate.measured == 9
