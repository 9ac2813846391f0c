"""Parsing of request headers."""

import httpx
import pytest

from embedwell.errors import BadRequest
from embedwell.http.headers import check_single_host, merge_headers, request_id_of
from tests.service.server import Server


def test_repeated_headers_are_merged_into_a_list() -> None:
    lines = [(b"accept", b"a"), (b"host", b"x"), (b"accept", b"b;q=0.1"), (b"accept", b"c, d")]
    assert merge_headers(lines) == {b"accept": b"a, b;q=0.1, c, d", b"host": b"x"}
    assert merge_headers(lines[:2]) == dict(lines[:2])


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_two_host_headers_are_refused(version: str) -> None:
    lines = [(b"host", b"a"), (b"accept", b"a"), (b"accept", b"b")]
    check_single_host(lines, merge_headers(lines), version)
    lines.append((b"host", b"a"))
    with pytest.raises(BadRequest, match="several Host headers"):
        check_single_host(lines, merge_headers(lines), version)


def test_of_repeated_request_ids_the_last_counts() -> None:
    lines = [(b"x-request-id", b"client"), (b"x-request-id", b"gateway")]
    assert request_id_of(merge_headers(lines)) == "gateway"


def test_repeated_accept_headers_are_weighed_together(server: Server) -> None:
    lines = [("accept", "application/x-npy"), ("accept", "text/plain;q=0.1")]
    headers = httpx.Headers([*lines, ("content-type", "application/json")])
    response = server.client.post("/embed", content=b'{"inputs": "a"}', headers=headers)
    assert response.headers["content-type"] == "application/x-npy"
