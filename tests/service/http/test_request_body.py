"""Bodies that trickle, are compressed, or say that they are something else than JSON."""

import contextlib
import gzip
import itertools
import json
import os
import socket
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.service.responses import error
from tests.service.server import Server
from tests.service.uvicorn_adapter.raw_http import connect

BODY = json.dumps({"inputs": "Hello, world"}).encode()


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with short timeouts and small limits."""
    log = tmp_path_factory.mktemp("hasty") / "log"
    with Server(log, receive_timeout=0.5, max_body_bytes=1_000_000) as running:
        yield running


def send(server: Server, content: bytes, **headers: str) -> httpx.Response:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return server.client.post("/embed", content=content, headers=names)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "GZIP", "x-gzip", "identity", "Identity"])
def test_a_compressed_body_says_the_same(server: Server, encoding: str) -> None:
    packed = {"gzip": gzip.compress(BODY), "deflate": zlib.compress(BODY), "identity": BODY}
    kind = encoding.strip().lower().removeprefix("x-")
    found = send(server, packed[kind], content_encoding=encoding)
    assert found.json() == send(server, BODY).json()


def test_a_compressed_body_may_come_in_pieces(server: Server) -> None:
    packed = gzip.compress(json.dumps({"inputs": os.urandom(99_999).hex()}).encode())
    pieces = (packed[start : start + 1000] for start in range(0, len(packed), 1000))
    headers = {"content-encoding": "gzip"}
    assert server.client.post("/embed", content=pieces, headers=headers).status_code == 200


def in_members(*sizes: int) -> bytes:
    """A body compressed in members of these sizes and one of the rest."""
    ends = [0, *itertools.accumulate(sizes), len(BODY)]
    return b"".join(gzip.compress(BODY[a:b]) for a, b in itertools.pairwise(ends))


@pytest.mark.parametrize("sizes", [(5,), (0,), (len(BODY),), (5, 0, 5), (1,) * len(BODY)])
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_a_compressed_body_may_have_several_members(
    server: Server, sizes: tuple[int, ...], step: int
) -> None:
    packed = in_members(*sizes)
    pieces = (packed[start : start + step] for start in range(0, len(packed), step))
    headers = {"content-encoding": "gzip"}
    found = server.client.post("/embed", content=pieces, headers=headers)
    assert found.json() == send(server, BODY).json()


@pytest.mark.parametrize(
    "content",
    [
        in_members(5)[:-9],
        in_members(5) + b"more",
        in_members(5) + bytes(8),
        gzip.compress(BODY)[:-9],
        gzip.compress(BODY)[:3],
        b"",
        BODY,
        gzip.compress(BODY) + b"more",
        gzip.compress(BODY)[:-8] + bytes(8),
    ],
    ids=range(9),  # the bytes hold the time
)
def test_a_broken_stream_is_told(server: Server, content: bytes) -> None:
    found = error(send(server, content, content_encoding="gzip"), 400)
    assert found["code"] == "broken_encoding"


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "rot13"])
def test_an_unknown_encoding_is_refused_with_the_known_ones(server: Server, encoding: str) -> None:
    answer = send(server, BODY, content_encoding=encoding)
    assert error(answer, 415)["code"] == "unsupported_encoding"
    assert answer.headers["accept-encoding"] == "gzip, deflate"


def test_another_encoding_than_gzip_has_no_members(server: Server) -> None:
    content = zlib.compress(BODY) + zlib.compress(b" ")
    found = error(send(server, content, content_encoding="deflate"), 400)
    assert found["code"] == "broken_encoding"


@pytest.fixture
def exact() -> bytes:
    """A body of just the limit of `hasty`."""
    found = b'{"inputs": "a"%s}'
    return found % (b" " * (1_000_000 - len(found) + 2))


def test_a_body_of_just_the_limit_is_read(hasty: Server, exact: bytes) -> None:
    assert len(exact) == 1_000_000
    assert send(hasty, exact).status_code == 200
    chunked = hasty.client.post("/embed", content=iter([exact[:-1], exact[-1:]]))
    assert "content-length" not in chunked.request.headers and chunked.status_code == 200
    beyond = hasty.client.post("/embed", content=iter([exact, b" "]))
    assert error(beyond, 413)["code"] == "body_too_large"


def test_a_bomb_in_members_is_refused(hasty: Server) -> None:
    bomb = gzip.compress(b" " * 300_000)
    found = error(send(hasty, bomb * 4, content_encoding="gzip"), 413)
    assert found["code"] == "body_too_large"


def test_a_body_has_a_thousand_members_at_most(server: Server) -> None:
    for empty, status in ((999, 200), (1000, 413)):
        content = gzip.compress(b"") * empty + gzip.compress(BODY)
        found = send(server, content, content_encoding="gzip")
        assert found.status_code == status
    assert found.json()["code"] == "too_many_parts"


def test_a_body_inflates_to_a_hundred_times_its_size_beside_a_megabyte(server: Server) -> None:
    for spaces, status in ((1_000_000, 200), (2_000_000, 413)):
        content = gzip.compress(BODY + b" " * spaces)
        assert len(content) < 2500
        found = send(server, content, content_encoding="gzip")
        assert found.status_code == status
    assert found.json()["code"] == "body_too_large" and "100 times" in found.text
    prose = json.dumps({"inputs": [f"text number {index}" for index in range(80_000)]}).encode()
    assert len(prose) > 1 << 20
    found = send(server, gzip.compress(prose), content_encoding="gzip")
    assert found.json()["code"] == "too_many_texts"


def test_a_bomb_is_refused_before_it_bursts(hasty: Server, exact: bytes) -> None:
    assert send(hasty, gzip.compress(exact), content_encoding="gzip").status_code == 200
    found = error(send(hasty, gzip.compress(exact + b" "), content_encoding="gzip"), 413)
    assert found["code"] == "body_too_large"
    bomb = gzip.compress(bytes(500_000_000))
    before = most(hasty)
    for _ in range(3):
        assert error(send(hasty, bomb, content_encoding="gzip"), 413)["code"] == "body_too_large"
    assert most(hasty) - before < 20_000


def most(server: Server) -> int:
    """The most memory that the server ever had, in kB."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


@pytest.mark.parametrize(
    "media",
    [
        "application/json",
        "application/json; charset=utf-8",
        'Application/JSON;charset="UTF-8"',
        "application/json; charset=utf-8;",
        "application/json; charset=utf-8; v=1",
        "application/json;v=1;charset=UTF-8",
        "application/json;",
        "application/json;charset=",
        "application/json; x-charset=utf-16",
        "application/vnd.api+json",
        "application/x-www-form-urlencoded",
        "text/plain",
    ],
)
def test_json_is_read_under_the_names_that_clients_give_it(server: Server, media: str) -> None:
    assert send(server, BODY, content_type=media).status_code == 200


@pytest.mark.parametrize(
    "media",
    [
        "multipart/form-data; boundary=x",
        "application/xml",
        "application/json; charset=utf-16",
        "x",
        "application/json; charset=utf-16; v=1",
        "application/json;charset=latin1;",
    ],
)
def test_what_says_it_is_no_json_is_refused(server: Server, media: str) -> None:
    answer = send(server, BODY, content_type=media)
    assert error(answer, 415)["code"] == "unsupported_type"
    assert answer.headers["accept"] == "application/json"


def start(client: socket.socket, length: int) -> None:
    client.sendall(
        f"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n".encode()
    )


@pytest.mark.parametrize("trickle", [b"", b"{", b" "])
def test_a_body_that_trickles_is_given_up_and_the_connection_closed(
    hasty: Server, trickle: bytes
) -> None:
    with connect(hasty) as client:
        client.settimeout(0.1)
        start(client, 1000)
        found = b""
        while not found:
            client.sendall(trickle)
            try:
                found = client.recv(10_000)
            except TimeoutError:
                continue
        assert found.startswith(b"HTTP/1.1 408 ") and b"connection: close" in found
        assert b'"code":"receive_timeout"' in found
        client.settimeout(60)
        with contextlib.suppress(ConnectionResetError):  # of bytes that crossed the end
            assert client.recv(1) == b""


@pytest.mark.full
def test_a_body_that_comes_in_time_is_answered_however_long_the_answer_takes(
    hasty: Server,
) -> None:
    with connect(hasty) as client:
        start(client, len(BODY))
        time.sleep(0.2)
        client.sendall(BODY)
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")
        time.sleep(0.5)  # the time of the first body is not that of the second
        start(client, len(BODY))
        client.sendall(BODY)
        found = b""
        while b"HTTP/1.1 200 " not in found:
            found += client.recv(10_000)
    body = {"inputs": ["word " * 250] * 150}
    assert hasty.post("/embed", body).status_code == 200


def test_none_of_it_is_an_unexpected_error(hasty: Server) -> None:
    assert "Traceback" not in hasty.log
