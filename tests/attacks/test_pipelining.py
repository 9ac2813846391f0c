"""Thousands of pipelined requests, which are quick to send."""

import pytest

from tests.attacks.harness import attack, flood
from tests.service.server import Server

pytestmark = pytest.mark.attack

GET = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


def test_many_connections_of_pipelined_requests_take_little_memory(victim: Server) -> None:
    payload = GET * ((256 << 10) // len(GET))
    with attack("80 connections with 256 KB of requests each", victim) as report:
        flood(victim.url, 80, payload, seconds=10)
    report.check(growth=150)


def test_100_000_pipelined_requests_take_little_memory(victim: Server) -> None:
    with attack("100,000 requests on one connection", victim) as report:
        flood(victim.url, 1, GET * 100_000, seconds=10)
    report.check(growth=50)
