"""The log of failed requests."""

import logging

import pytest

from embedwell.http.failure_log import FailureLog, InvalidRequestLog


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_failures_are_logged_with_their_request_up_to_ten_a_second(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    failures = FailureLog(clock)
    for number in range(12):
        failures.write(f"request-{number}", "/embed", 503, "the engine is away")
    assert len(caplog.records) == 10
    assert "request-9 to /embed: 503 the engine is away" in caplog.text
    clock.now += 1
    failures.write("later", "/embed", 503, "the engine is away")
    assert [record.getMessage().split(" ")[0] for record in caplog.records[10:]] == ["2", "request"]
    clock.now += 1
    failures.write("last", "/embed", 503, "the engine is away")
    assert len(caplog.records) == 13, "none was dropped"


def test_invalid_requests_are_counted_in_a_line_a_second(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    invalid = InvalidRequestLog(clock)
    for seconds in (0, 0.2, 0.2, 0.6, 0.1):
        clock.now += seconds
        invalid.write()
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, f"clients sent bytes that are not a valid HTTP request ({count})")
        for count in (1, 3)
    ]
