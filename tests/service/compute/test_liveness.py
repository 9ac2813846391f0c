"""Whether an engine responds: its progress, and its processor time."""

from embedwell.compute.liveness import Liveness
from embedwell.engine.wire.engine_state import EngineProgress, SharedCounters


def check(liveness: Liveness, count: int, waiting: bool = True) -> list[str]:
    """Return the state after each of several checks."""
    states = []
    for _ in range(count):
        liveness.check(waiting)
        unresponsive = "unresponsive" if liveness.unresponsive else "alive"
        states.append("hung" if liveness.hung else unresponsive)
    return states


def test_an_engine_that_does_nothing_for_jobs_is_unresponsive_and_then_hung() -> None:
    liveness = Liveness(SharedCounters.private())
    assert check(liveness, 12) == ["alive"] * 5 + ["unresponsive"] * 5 + ["hung"] * 2


def test_an_engine_without_jobs_may_stay_idle() -> None:
    liveness = Liveness(SharedCounters.private())
    assert set(check(liveness, 100, waiting=False)) == {"alive"}
    assert check(liveness, 5) == ["alive"] * 4 + ["unresponsive"]


def test_the_beginning_and_the_end_of_a_batch_are_progress() -> None:
    counters = SharedCounters.private()
    progress, liveness = EngineProgress(counters), Liveness(counters)
    for number in range(10):
        progress.begin(number, 0.1)
        assert set(check(liveness, 5)) == {"alive"}
        progress.end(number)
        assert set(check(liveness, 5)) == {"alive"}
    assert check(liveness, 1) == ["unresponsive"]


def test_the_limits_grow_with_the_longest_running_batch() -> None:
    counters = SharedCounters.private()
    progress, liveness = EngineProgress(counters), Liveness(counters)
    progress.begin("long", 4.0)
    progress.begin("short", 0.1)
    assert check(liveness, 42) == ["alive"] * 20 + ["unresponsive"] * 20 + ["hung"] * 2
    progress.end("short")
    assert check(liveness, 20) == ["alive"] * 20
    progress.end("long")
    assert check(liveness, 12) == ["alive"] * 5 + ["unresponsive"] * 5 + ["hung"] * 2


def test_an_engine_does_not_inherit_the_batches_of_one_that_died() -> None:
    counters = SharedCounters.private()
    EngineProgress(counters).begin("long", 100.0)
    EngineProgress(counters)
    assert check(Liveness(counters), 12)[-1] == "hung"


class FakeEngine:
    """Processor time of an engine: None while it sleeps or is stopped."""

    def __init__(self, *seconds: float | None) -> None:
        self._seconds = iter(seconds)

    def __call__(self, pid: int) -> float | None:
        assert pid == 17
        return next(self._seconds)


def test_time_in_which_an_engine_waits_for_a_processor_does_not_count() -> None:
    counters = SharedCounters.private()
    EngineProgress(counters, pid=17)
    starved = FakeEngine(*(number / 10 for number in range(42)), *range(5, 20))
    liveness = Liveness(counters, starved)
    assert set(check(liveness, 41)) == {"alive"}, "it had 4 seconds of 40"
    assert check(liveness, 6)[-1] == "unresponsive", "it computes for too long"


def test_the_time_of_an_engine_that_sleeps_or_is_stopped_counts() -> None:
    counters = SharedCounters.private()
    EngineProgress(counters, pid=17)
    liveness = Liveness(counters, FakeEngine(0.0, *[None] * 12))
    assert check(liveness, 12) == ["alive"] * 5 + ["unresponsive"] * 5 + ["hung"] * 2


def test_the_time_of_several_threads_counts_once() -> None:
    counters = SharedCounters.private()
    EngineProgress(counters, pid=17)
    liveness = Liveness(counters, FakeEngine(*(8.0 * number for number in range(12))))
    assert check(liveness, 12) == ["alive"] * 5 + ["unresponsive"] * 5 + ["hung"] * 2
