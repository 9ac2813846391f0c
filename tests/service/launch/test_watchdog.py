"""Detection of processes that hang."""

from math import inf

from embedwell.launch.watchdog import HangLimits, Watchdog


def checks_until_fault(watchdog: Watchdog, limit: int = 100) -> tuple[int, str | None]:
    """The number of checks until the watchdog finds a fault, and the fault."""
    for count in range(1, limit + 1):
        if fault := watchdog.check():
            return count, fault
    return limit, None


def test_without_limits_there_is_never_a_fault() -> None:
    watchdog = Watchdog(HangLimits(stop=inf), 1)
    assert checks_until_fault(watchdog) == (100, None)
    watchdog.note_ready()
    assert checks_until_fault(watchdog) == (100, None)
    watchdog.note_stop_requested()
    assert checks_until_fault(watchdog) == (100, None)


def test_each_stage_has_its_own_limit() -> None:
    watchdog = Watchdog(HangLimits(start=3, stop=4, heartbeat_timeout=5), 1)
    watchdog.note_started()
    assert checks_until_fault(watchdog) == (3, "is not ready after 3 s")
    watchdog.note_ready()
    assert checks_until_fault(watchdog) == (5, "has shown no progress for 5 s")
    watchdog.note_started()
    assert checks_until_fault(watchdog) == (3, "is not ready after 3 s")
    watchdog.note_stop_requested()
    assert checks_until_fault(watchdog) == (4, "has not finished in 4 s")
    watchdog.note_stop_requested(2)
    assert checks_until_fault(watchdog) == (2, "has not finished in 2 s")


def test_a_changed_heartbeat_restarts_the_limit_of_silence() -> None:
    beats = iter([1.0, 1.0, 2.0, 3.0, 3.0, 3.0])
    watchdog = Watchdog(HangLimits(heartbeat_timeout=2, heartbeat=lambda: next(beats)), 1)
    watchdog.note_ready()
    assert checks_until_fault(watchdog) == (6, "has shown no progress for 2 s")
