"""The state of requests: paths that begin with the name of a model."""

import httpx
import pytest

from embedwell.errors import BadRequest
from embedwell.http.request_context import (
    ModelPaths,
    check_single_host,
    merge_headers,
    model_in_path,
    request_id_of,
)
from tests.service.server import Server

PATHS = ModelPaths({"small": 0, "org": 1, "org/wide": 2, "with:tag": 3})


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/m/small/embed", (0, "/embed")),
        ("/m/small", (0, "/")),
        ("/m/small/", (0, "/")),
        ("/m/small//embed", (0, "//embed")),
        ("/m/org/wide/v1/embeddings", (2, "/v1/embeddings")),
        ("/m/org/embed", (1, "/embed")),
        ("/m/with:tag/api/embed", (3, "/api/embed")),
        ("/m/smaller/embed", None),
        ("/m/", None),
        ("/m", None),
        ("/small/embed", None),
        ("/models/small", None),
    ],
)
def test_a_path_is_split_after_the_longest_name(
    path: str, expected: tuple[int, str] | None
) -> None:
    assert PATHS.split(path) == expected


def test_a_model_is_chosen_for_a_block_alone() -> None:
    assert model_in_path.get() is None
    with PATHS.chosen(2):
        assert model_in_path.get() == 2
        with PATHS.chosen(0):
            assert model_in_path.get() == 0
        assert model_in_path.get() == 2
    assert model_in_path.get() is None


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
