"""When a process is taken to hang."""

from math import inf

from service.process.watchdog import Limits, Watchdog


def looks(watchdog: Watchdog, most: int = 100) -> tuple[int, str | None]:
    """How many looks it takes until something is wrong, and what that is."""
    for count in range(1, most + 1):
        if fault := watchdog.check():
            return count, fault
    return most, None


def test_a_process_without_limits_may_take_any_time() -> None:
    watchdog = Watchdog(Limits(stop=inf), 1)
    assert looks(watchdog) == (100, None)
    watchdog.ready()
    assert looks(watchdog) == (100, None)
    watchdog.stop()
    assert looks(watchdog) == (100, None)


def test_each_stage_has_its_own_limit() -> None:
    watchdog = Watchdog(Limits(start=3, stop=4, silence=5), 1)
    watchdog.start()
    assert looks(watchdog) == (3, "is not ready after 3 s")
    watchdog.ready()
    assert looks(watchdog) == (5, "has not moved for 5 s")
    watchdog.start()
    assert looks(watchdog) == (3, "is not ready after 3 s")
    watchdog.stop()
    assert looks(watchdog) == (4, "has not finished in 4 s")
    watchdog.stop(2)
    assert looks(watchdog) == (2, "has not finished in 2 s")


def test_a_heartbeat_that_changes_begins_the_silence_anew() -> None:
    beats = iter([1.0, 1.0, 2.0, 3.0, 3.0, 3.0])
    watchdog = Watchdog(Limits(silence=2, heartbeat=lambda: next(beats)), 1)
    watchdog.ready()
    assert looks(watchdog) == (6, "has not moved for 2 s")
