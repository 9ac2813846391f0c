"""What is read of a request's headers."""

import httpx

from service.http.headers import merge_headers, request_id_of
from tests.service.server import Server


def test_lines_of_one_name_are_one_list() -> None:
    lines = [(b"accept", b"a"), (b"host", b"x"), (b"accept", b"b;q=0.1"), (b"accept", b"c, d")]
    assert merge_headers(lines) == {b"accept": b"a, b;q=0.1, c, d", b"host": b"x"}
    assert merge_headers(lines[:2]) == dict(lines[:2])


def test_of_what_is_no_list_the_last_line_counts() -> None:
    lines = [(b"x-request-id", b"client"), (b"x-request-id", b"gateway")]
    assert request_id_of(merge_headers(lines)) == "gateway"


def test_the_best_of_all_lines_of_accept_is_sent(server: Server) -> None:
    lines = [("accept", "application/x-npy"), ("accept", "text/plain;q=0.1")]
    headers = httpx.Headers([*lines, ("content-type", "application/json")])
    found = server.client.post("/embed", content=b'{"inputs": "a"}', headers=headers)
    assert found.headers["content-type"] == "application/x-npy"
