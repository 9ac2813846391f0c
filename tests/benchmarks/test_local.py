"""The report of the benchmark of programs that share a local server."""

from benchmarks.local import report
from benchmarks.machine import describe


def test_the_report_has_medians_of_seconds_and_memory() -> None:
    turns = [{"seconds": seconds, "pss_mb": seconds * 100} for seconds in (2.0, 1.0, 3.0)]
    results = {"machine": describe(), "model": "m", "programs": 20}
    *_, row = report(results | {"turns": {"local server, at once": turns}}).splitlines()
    assert row.split() == ["local", "server,", "at", "once", "2.0", "(1.0-3.0)", "200", "(100-300)"]
