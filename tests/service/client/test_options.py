"""Options that both clients share, and the attempts that they repeat."""

import time
from email.utils import formatdate

import httpx
import pytest

import embedwell
from embedwell_client import AsyncClient, Client
from embedwell_client.options import MAX_DELAY, ClientOptions, is_retryable, retry_delay


def test_the_headers_name_the_client_and_have_the_key() -> None:
    headers = ClientOptions("http://localhost", "sesame").httpx_arguments["headers"]
    assert headers == {
        b"user-agent": f"embedwell/{embedwell.__version__}".encode(),
        b"authorization": b"Bearer sesame",
    }
    assert b"authorization" not in ClientOptions("http://localhost").httpx_arguments["headers"]


def test_an_address_without_http_is_refused() -> None:
    with pytest.raises(ValueError, match="'localhost:8080': the address must begin with http://"):
        _ = ClientOptions("localhost:8080").httpx_arguments


def test_the_scheme_of_an_address_may_be_in_capitals() -> None:
    assert ClientOptions("HTTP://localhost").httpx_arguments["base_url"] == "HTTP://localhost"


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_only_https_needs_certificates(
    client: type[Client | AsyncClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/missing")
    client("http://localhost")
    with pytest.raises(FileNotFoundError):
        client("HTTPS://localhost")


def no_jitter() -> float:
    return 0.0


def busy(retry_after: str) -> httpx.Response:
    return httpx.Response(429, headers={"retry-after": retry_after})


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [("3", 3.0), ("0", 2.0), ("99999", MAX_DELAY), ("soon", 2.0), ("-4", 2.0)],
)
def test_the_delay_is_retry_after_up_to_a_maximum(retry_after: str, seconds: float) -> None:
    assert retry_delay(busy(retry_after), 2, no_jitter) == seconds


def test_retry_after_may_be_a_date() -> None:
    def delay(seconds: float) -> float:
        return retry_delay(busy(formatdate(time.time() + seconds, usegmt=True)), 0, no_jitter)

    assert 8 < delay(10) <= 10
    assert delay(-10) == 0.5
    assert delay(9999) == MAX_DELAY


def test_the_delay_grows_with_each_attempt() -> None:
    assert [retry_delay(busy("1"), attempt, no_jitter) for attempt in range(5)] == [1, 1, 2, 4, 8]
    error = httpx.ConnectError("refused")
    delays = [retry_delay(error, attempt, no_jitter) for attempt in (0, 1, 2, 99, 9999)]
    assert delays == [0.5, 1.0, 2.0, MAX_DELAY, MAX_DELAY]


def test_jitter_spreads_the_delays() -> None:
    delays = {retry_delay(busy("10"), 0) for _ in range(100)}
    assert len(delays) > 50
    assert all(10 <= seconds <= 12.5 for seconds in delays)
    assert retry_delay(busy("10"), 0, lambda: 1.0) == 12.5


def test_temporary_errors_are_retried() -> None:
    retried = [status for status in range(200, 600) if is_retryable(httpx.Response(status))]
    assert retried == [429, 502, 503]
    errors = [httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError, httpx.ConnectTimeout]
    assert all(is_retryable(error("")) for error in errors)
    assert not any(
        is_retryable(error("")) for error in (httpx.ReadTimeout, httpx.UnsupportedProtocol)
    )
