"""How long the clients in Python wait."""

import time
from email.utils import formatdate

import httpx
import pytest

from service.retry import LONGEST, passing, pause


def busy(told: str) -> httpx.Response:
    return httpx.Response(429, headers={"retry-after": told})


@pytest.mark.parametrize(
    ("told", "seconds"), [("3", 3.0), ("0", 0.0), ("99999", LONGEST), ("soon", 2.0), ("-4", 2.0)]
)
def test_the_pause_is_what_the_server_says_up_to_a_cap(told: str, seconds: float) -> None:
    assert pause(busy(told), 2) == seconds


def test_a_date_is_seconds_from_now() -> None:
    assert 8 < pause(busy(formatdate(time.time() + 10, usegmt=True)), 0) <= 10
    assert pause(busy(formatdate(time.time() - 10, usegmt=True)), 0) == 0
    assert pause(busy(formatdate(time.time() + 9999, usegmt=True)), 0) == LONGEST


def test_without_a_word_the_pause_doubles() -> None:
    found = [pause(httpx.ConnectError("refused"), attempt) for attempt in (0, 1, 2, 99, 9999)]
    assert found == [0.5, 1.0, 2.0, LONGEST, LONGEST]


def test_what_may_pass_is_tried_again() -> None:
    assert [status for status in range(200, 600) if passing(httpx.Response(status))] == [429, 503]
    lost = [httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError, httpx.ConnectTimeout]
    assert all(passing(error("")) for error in lost)
    assert not any(passing(error("")) for error in (httpx.ReadTimeout, httpx.UnsupportedProtocol))
