"""Request bodies: compression, size limits, content types and timeouts."""

import asyncio
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
from starlette.types import Message

from embedwell.compute.request_limits import MemoryBudget, Reservation, SlowClient
from embedwell.http.http_limits import HttpLimits, LimitedReceive, Timeouts
from embedwell.http.request_context import RequestContext
from tests.service.http.protocol.raw_http import connect
from tests.service.responses import error
from tests.service.server import Server

BODY = json.dumps({"inputs": "Hello, world"}).encode()
MB = 1 << 20


@pytest.fixture(scope="module")
def strict_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with short timeouts and small limits."""
    log = tmp_path_factory.mktemp("hasty") / "log"
    with Server(log, receive_timeout=0.5, max_body_bytes=1_000_000) as running:
        yield running


def send(server: Server, content: bytes, **headers: str) -> httpx.Response:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return server.client.post("/embed", content=content, headers=names)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "GZIP", "x-gzip", "identity", "Identity"])
def test_a_compressed_body_has_the_same_response(server: Server, encoding: str) -> None:
    compressed = {"gzip": gzip.compress(BODY), "deflate": zlib.compress(BODY), "identity": BODY}
    kind = encoding.strip().lower().removeprefix("x-")
    response = send(server, compressed[kind], content_encoding=encoding)
    assert response.json() == send(server, BODY).json()


def test_a_compressed_body_may_be_chunked(server: Server) -> None:
    compressed = gzip.compress(json.dumps({"inputs": os.urandom(99_999).hex()}).encode())
    chunks = (
        compressed[send_head : send_head + 1000] for send_head in range(0, len(compressed), 1000)
    )
    headers = {"content-encoding": "gzip"}
    assert server.client.post("/embed", content=chunks, headers=headers).status_code == 200


def gzip_members(*sizes: int) -> bytes:
    """The body as several gzip members: these sizes, then the rest."""
    ends = [0, *itertools.accumulate(sizes), len(BODY)]
    return b"".join(gzip.compress(BODY[a:b]) for a, b in itertools.pairwise(ends))


@pytest.mark.parametrize("sizes", [(5,), (0,), (len(BODY),), (5, 0, 5), (1,) * len(BODY)])
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_a_compressed_body_may_have_several_members(
    server: Server, sizes: tuple[int, ...], step: int
) -> None:
    compressed = gzip_members(*sizes)
    chunks = (
        compressed[send_head : send_head + step] for send_head in range(0, len(compressed), step)
    )
    headers = {"content-encoding": "gzip"}
    response = server.client.post("/embed", content=chunks, headers=headers)
    assert response.json() == send(server, BODY).json()


@pytest.mark.parametrize(
    "content",
    [
        gzip_members(5)[:-9],
        gzip_members(5) + b"more",
        gzip_members(5) + bytes(8),
        gzip.compress(BODY)[:-9],
        gzip.compress(BODY)[:3],
        b"",
        BODY,
        gzip.compress(BODY) + b"more",
        gzip.compress(BODY)[:-8] + bytes(8),
    ],
    ids=range(9),  # the bytes hold the time
)
def test_a_broken_gzip_stream_is_refused(server: Server, content: bytes) -> None:
    failure = error(send(server, content, content_encoding="gzip"), 400)
    assert failure["code"] == "broken_encoding"


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "rot13"])
def test_the_error_of_an_unknown_encoding_lists_the_supported_ones(
    server: Server, encoding: str
) -> None:
    response = send(server, BODY, content_encoding=encoding)
    assert error(response, 415)["code"] == "unsupported_encoding"
    assert response.headers["accept-encoding"] == "gzip, deflate"


def test_only_gzip_may_have_several_members(server: Server) -> None:
    content = zlib.compress(BODY) + zlib.compress(b" ")
    failure = error(send(server, content, content_encoding="deflate"), 400)
    assert failure["code"] == "broken_encoding"


@pytest.fixture
def body_at_limit() -> bytes:
    """A body of exactly the limit of `strict_server`."""
    template = b'{"inputs": "a"%s}'
    return template % (b" " * (1_000_000 - len(template) + 2))


def test_a_body_of_exactly_the_limit_is_accepted(
    strict_server: Server, body_at_limit: bytes
) -> None:
    assert len(body_at_limit) == 1_000_000
    assert send(strict_server, body_at_limit).status_code == 200
    chunked = strict_server.client.post(
        "/embed", content=iter([body_at_limit[:-1], body_at_limit[-1:]])
    )
    assert "content-length" not in chunked.request.headers and chunked.status_code == 200
    over_limit = strict_server.client.post("/embed", content=iter([body_at_limit, b" "]))
    assert error(over_limit, 413)["code"] == "body_too_large"


def test_a_decompression_bomb_of_several_members_is_refused(strict_server: Server) -> None:
    bomb = gzip.compress(b" " * 300_000)
    failure = error(send(strict_server, bomb * 4, content_encoding="gzip"), 413)
    assert failure["code"] == "body_too_large"


def test_a_gzip_body_has_at_most_a_thousand_members(server: Server) -> None:
    for empty, status in ((999, 200), (1000, 413)):
        content = gzip.compress(b"") * empty + gzip.compress(BODY)
        response = send(server, content, content_encoding="gzip")
        assert response.status_code == status
    assert response.json()["code"] == "too_many_parts"


def test_a_body_may_inflate_to_a_hundred_times_its_size_plus_a_megabyte(server: Server) -> None:
    for spaces, status in ((1_000_000, 200), (2_000_000, 413)):
        content = gzip.compress(BODY + b" " * spaces)
        assert len(content) < 2500
        response = send(server, content, content_encoding="gzip")
        assert response.status_code == status
    assert response.json()["code"] == "body_too_large" and "100 times" in response.text
    texts = json.dumps({"inputs": [f"text number {index}" for index in range(80_000)]}).encode()
    assert len(texts) > 1 << 20
    response = send(server, gzip.compress(texts), content_encoding="gzip")
    assert response.json()["code"] == "too_many_texts"


def test_a_decompression_bomb_is_refused_before_it_takes_memory(
    strict_server: Server, body_at_limit: bytes
) -> None:
    assert (
        send(strict_server, gzip.compress(body_at_limit), content_encoding="gzip").status_code
        == 200
    )
    failure = error(
        send(strict_server, gzip.compress(body_at_limit + b" "), content_encoding="gzip"), 413
    )
    assert failure["code"] == "body_too_large"
    bomb = gzip.compress(bytes(500_000_000))
    before = peak_memory(strict_server)
    for _ in range(3):
        assert (
            error(send(strict_server, bomb, content_encoding="gzip"), 413)["code"]
            == "body_too_large"
        )
    assert peak_memory(strict_server) - before < 20_000


def peak_memory(server: Server) -> int:
    """Peak memory of the server in kB."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


@pytest.mark.parametrize(
    "content_type",
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
def test_json_is_accepted_with_the_content_types_of_clients(
    server: Server, content_type: str
) -> None:
    assert send(server, BODY, content_type=content_type).status_code == 200


@pytest.mark.parametrize(
    "content_type",
    [
        "multipart/form-data; boundary=x",
        "application/xml",
        "application/json; charset=utf-16",
        "x",
        "application/json; charset=utf-16; v=1",
        "application/json;charset=latin1;",
    ],
)
def test_other_content_types_are_refused(server: Server, content_type: str) -> None:
    response = send(server, BODY, content_type=content_type)
    assert error(response, 415)["code"] == "unsupported_type"
    assert response.headers["accept"] == "application/json"


def send_head(client: socket.socket, length: int) -> None:
    client.sendall(
        f"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n".encode()
    )


@pytest.mark.parametrize("trickle", [b"", b"{", b" "])
def test_a_slow_body_times_out_and_closes_the_connection(
    strict_server: Server, trickle: bytes
) -> None:
    with connect(strict_server) as client:
        client.settimeout(0.1)
        send_head(client, 1000)
        received = b""
        while not received:
            client.sendall(trickle)
            try:
                received = client.recv(10_000)
            except TimeoutError:
                continue
        assert received.startswith(b"HTTP/1.1 408 ") and b"connection: close" in received
        assert b'"code":"receive_timeout"' in received
        client.settimeout(60)
        with contextlib.suppress(ConnectionResetError):  # the client sent while the server closed
            assert client.recv(1) == b""


class Pauses(MemoryBudget):
    """A budget that stores the seconds of earlier pauses."""

    def __init__(self) -> None:
        super().__init__(max_pause=0)
        self.seconds = list[float]()

    def pause(self, client: SlowClient, seconds: float = 0.0) -> None:
        self.seconds.append(seconds)
        super().pause(client, seconds)


async def receive_all(budget: MemoryBudget, *sizes: int) -> RequestContext:
    """The context of a request whose body arrives in parts of these sizes, and never ends."""

    async def receive() -> Message:
        await asyncio.sleep(0.001 if parts else 1000)
        return {"type": "http.request", "body": bytes(parts.pop(0)), "more_body": True}

    async def receive_parts() -> None:
        while True:
            await limited()

    parts, context = [*sizes], RequestContext("id", memory=Reservation(budget))
    limited = LimitedReceive(receive, HttpLimits(10 * MB, Timeouts(1000), budget), context)
    context.task = asyncio.create_task(receive_parts())
    while parts:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0)
    return context


def test_a_body_that_stops_gives_way_to_others() -> None:
    async def run() -> None:
        budget = MemoryBudget(4 * MB, max_pause=0)
        context = await receive_all(budget, MB)
        assert context.task is not None
        assert budget.reserved == 3 * MB
        Reservation(budget).grow(2 * MB)
        await asyncio.wait([context.task])
        assert context.task.cancelled() and context.fault is not None
        assert context.fault.status == 408 and "other requests need" in context.fault.message

    asyncio.run(run())


def test_few_bytes_now_and_then_do_not_end_the_pause_of_a_sender() -> None:
    async def run() -> list[float]:
        budget = Pauses()
        await receive_all(budget, 100_000, 1, 1, MB // 4, 1)
        return budget.seconds

    seconds = asyncio.run(run())
    assert seconds[0] == 0.0 and 0 < seconds[1] < seconds[2]
    assert seconds[3] == 0.0 and seconds[4] > 0


@pytest.mark.full
def test_the_receive_timeout_does_not_limit_the_computation(
    strict_server: Server,
) -> None:
    with connect(strict_server) as client:
        send_head(client, len(BODY))
        client.sendall(BODY)
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")
        time.sleep(0.5)  # the timeout starts anew with the second body
        send_head(client, len(BODY))
        client.sendall(BODY)
        received = b""
        while b"HTTP/1.1 200 " not in received:
            received += client.recv(10_000)
    body = {"inputs": ["word " * 250] * 40}
    assert strict_server.post("/embed", body).status_code == 200


def test_no_error_of_this_module_was_unexpected(strict_server: Server) -> None:
    assert "Traceback" not in strict_server.log
