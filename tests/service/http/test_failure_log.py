"""Lines about requests that fail."""

import pytest

from service.http.failure_log import FailureLog


def test_a_line_names_the_request_and_a_flood_of_failures_is_no_flood_of_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures = FailureLog()
    failures.write("mine", "/embed", 503, "the engine is away")
    assert "mine" in caplog.text and "503 the engine is away" in caplog.text
    for _ in range(10_000):
        failures.write("mine", "/embed", 503, "the engine is away")
    assert len(caplog.records) < 1000
