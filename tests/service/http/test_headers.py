"""Parsing of request headers."""

import httpx

from embedwell.http.headers import merge_headers, request_id_of
from tests.service.server import Server


def test_repeated_headers_are_merged_into_a_list() -> None:
    lines = [(b"accept", b"a"), (b"host", b"x"), (b"accept", b"b;q=0.1"), (b"accept", b"c, d")]
    assert merge_headers(lines) == {b"accept": b"a, b;q=0.1, c, d", b"host": b"x"}
    assert merge_headers(lines[:2]) == dict(lines[:2])


def test_of_repeated_request_ids_the_last_counts() -> None:
    lines = [(b"x-request-id", b"client"), (b"x-request-id", b"gateway")]
    assert request_id_of(merge_headers(lines)) == "gateway"


def test_repeated_accept_headers_are_weighed_together(server: Server) -> None:
    lines = [("accept", "application/x-npy"), ("accept", "text/plain;q=0.1")]
    headers = httpx.Headers([*lines, ("content-type", "application/json")])
    response = server.client.post("/embed", content=b'{"inputs": "a"}', headers=headers)
    assert response.headers["content-type"] == "application/x-npy"
