"""How long the clients in Python wait."""

import time
from email.utils import formatdate

import httpx
import pytest

from service.client.retry import MAX_DELAY, is_retryable, retry_delay


def never() -> float:
    return 0.0


def busy(told: str) -> httpx.Response:
    return httpx.Response(429, headers={"retry-after": told})


@pytest.mark.parametrize(
    ("told", "seconds"), [("3", 3.0), ("0", 2.0), ("99999", MAX_DELAY), ("soon", 2.0), ("-4", 2.0)]
)
def test_the_pause_is_what_the_server_says_up_to_a_cap(told: str, seconds: float) -> None:
    assert retry_delay(busy(told), 2, never) == seconds


def test_a_date_is_seconds_from_now() -> None:
    assert 8 < retry_delay(busy(formatdate(time.time() + 10, usegmt=True)), 0, never) <= 10
    assert retry_delay(busy(formatdate(time.time() - 10, usegmt=True)), 0, never) == 0.5
    assert retry_delay(busy(formatdate(time.time() + 9999, usegmt=True)), 0, never) == MAX_DELAY


def test_the_pause_doubles_whatever_is_said() -> None:
    assert [retry_delay(busy("1"), attempt, never) for attempt in range(5)] == [1, 1, 2, 4, 8]
    lost = httpx.ConnectError("refused")
    found = [retry_delay(lost, attempt, never) for attempt in (0, 1, 2, 99, 9999)]
    assert found == [0.5, 1.0, 2.0, MAX_DELAY, MAX_DELAY]


def test_clients_that_were_refused_together_come_back_one_by_one() -> None:
    found = {retry_delay(busy("10"), 0) for _ in range(100)}
    assert len(found) > 50
    assert all(10 <= seconds <= 12.5 for seconds in found)
    assert retry_delay(busy("10"), 0, lambda: 1.0) == 12.5


def test_what_may_pass_is_tried_again() -> None:
    again = [status for status in range(200, 600) if is_retryable(httpx.Response(status))]
    assert again == [429, 502, 503]
    lost = [httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError, httpx.ConnectTimeout]
    assert all(is_retryable(error("")) for error in lost)
    assert not any(
        is_retryable(error("")) for error in (httpx.ReadTimeout, httpx.UnsupportedProtocol)
    )
