"""The log of failed requests."""

import pytest

from embedwell.http.failure_log import FailureLog


def test_failures_are_logged_with_their_request_at_a_limited_rate(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures = FailureLog()
    failures.write("mine", "/embed", 503, "the engine is away")
    assert "mine" in caplog.text and "503 the engine is away" in caplog.text
    for _ in range(10_000):
        failures.write("mine", "/embed", 503, "the engine is away")
    assert len(caplog.records) < 1000
