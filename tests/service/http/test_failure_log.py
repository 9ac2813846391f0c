"""The log of failed requests."""

import time

import pytest

from embedwell.http.failure_log import FailureLog, InvalidRequestLog


def test_failures_are_logged_with_their_request_at_a_limited_rate(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures = FailureLog()
    failures.write("mine", "/embed", 503, "the engine is away")
    assert "mine" in caplog.text and "503 the engine is away" in caplog.text
    for _ in range(10_000):
        failures.write("mine", "/embed", 503, "the engine is away")
    assert len(caplog.records) < 1000


def test_invalid_requests_are_counted_in_a_line_a_second(caplog: pytest.LogCaptureFixture) -> None:
    invalid = InvalidRequestLog()
    invalid.write()
    assert "not a valid HTTP request (1)" in caplog.text
    start = time.monotonic()
    while len(caplog.records) < 3:
        invalid.write()
    counts = [int(record.getMessage().rpartition("(")[2][:-1]) for record in caplog.records]
    assert counts[0] == 1 and counts[2] > 1
    assert len(caplog.records) <= 2 + (time.monotonic() - start)
