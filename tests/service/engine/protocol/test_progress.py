"""Signs of life of the engine."""

from service.engine.protocol.progress import Liveness, Progress
from service.process.shared_counters import SharedCounters


def looks(liveness: Liveness, count: int, waiting: bool = True) -> list[str]:
    """What is said after each of so many looks."""
    found = []
    for _ in range(count):
        liveness.look(waiting)
        found.append("hangs" if liveness.hangs else "silent" if liveness.silent else "moves")
    return found


def test_an_engine_that_does_nothing_for_jobs_is_silent_and_then_hangs() -> None:
    liveness = Liveness(SharedCounters.private())
    assert looks(liveness, 12) == ["moves"] * 5 + ["silent"] * 5 + ["hangs"] * 2


def test_an_engine_without_jobs_may_rest_for_ever() -> None:
    liveness = Liveness(SharedCounters.private())
    assert set(looks(liveness, 100, waiting=False)) == {"moves"}
    assert looks(liveness, 5) == ["moves"] * 4 + ["silent"]


def test_the_beginning_and_the_end_of_a_pass_are_signs_of_life() -> None:
    counters = SharedCounters.private()
    progress, liveness = Progress(counters), Liveness(counters)
    for number in range(10):
        progress.begin(number, 0.1)
        assert set(looks(liveness, 5)) == {"moves"}
        progress.end(number)
        assert set(looks(liveness, 5)) == {"moves"}
    assert looks(liveness, 1) == ["silent"]


def test_a_pass_that_should_take_long_may_take_longer_and_short_ones_beside_it_change_nothing() -> (
    None
):
    counters = SharedCounters.private()
    progress, liveness = Progress(counters), Liveness(counters)
    progress.begin("long", 4.0)
    progress.begin("short", 0.1)
    assert looks(liveness, 42) == ["moves"] * 20 + ["silent"] * 20 + ["hangs"] * 2
    progress.end("short")
    assert looks(liveness, 20) == ["moves"] * 20
    progress.end("long")
    assert looks(liveness, 12) == ["moves"] * 5 + ["silent"] * 5 + ["hangs"] * 2


def test_an_engine_does_not_inherit_the_passes_of_one_that_died() -> None:
    counters = SharedCounters.private()
    Progress(counters).begin("long", 100.0)
    Progress(counters)
    assert looks(Liveness(counters), 12)[-1] == "hangs"
