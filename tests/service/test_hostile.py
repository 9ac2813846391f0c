"""Hostile requests: each gets its response, in time and without leaking memory."""

import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from embedwell.launch.supervised import HTTP_PROCESS
from tests.models.tiny import panicking, write_bert
from tests.service.local_server import local_server
from tests.service.server import Server, error_of

MB = 1 << 20


def text(body: object) -> bytes:
    return json.dumps(body).encode()


def nested(depth: int) -> bytes:
    return b'{"inputs": ' + b"[" * depth + b"]" * depth + b"}"


def many(head: bytes, item: bytes, count: int, tail: bytes = b"]}") -> bytes:
    return head + (b"," + item) * count + tail


def fields(head: bytes, count: int, tail: bytes = b"}") -> bytes:
    return head + b"".join(b',"f%d":1' % index for index in range(count)) + tail


WORDS = "word " * 100_000
OK, BAD, TOO_LARGE = (200, None), (400, "invalid_request"), 413
TOO_MANY_PARTS = (TOO_LARGE, "too_many_parts")
REFUSED_WITHOUT_WORK = {"invalid_request", "unknown_field", "body_too_large", "too_many_parts"}
"""Codes of requests refused before tokenization, for which the event loop hardly blocks."""
CORPUS = {
    "lists in lists": ("/embed", nested(1_000_000), *TOO_MANY_PARTS),
    "1,000 lists in lists": ("/embed", nested(1000), *BAD),
    "10,000 objects in objects": ("/embed", b'{"inputs":' * 10_000, *BAD),
    "lists without end": ("/embed", b"[" * 8_000_000, *TOO_MANY_PARTS),
    "objects in objects": ("/embed", b'{"inputs":' * 800_000, *TOO_MANY_PARTS),
    "50 MB": ("/embed", b" " * 50 * MB, TOO_LARGE, "body_too_large"),
    "nothing": ("/embed", b"", *BAD),
    "a lone surrogate": ("/embed", rb'{"inputs": "\ud800"}', *OK),
    "a lone surrogate as a name": ("/embed", rb'{"\udfff": "a"}', 400, "unknown_field"),
    "a lone surrogate at the end": (
        "/embed",
        text({"x": "a" * 7 * MB + "\ud800"}),
        400,
        "unknown_field",
    ),
    "surrogates in the wrong order": ("/embed", rb'{"inputs": "\udc00\ud800"}', *OK),
    "a surrogate in UTF-8": ("/embed", b'{"inputs": "\xed\xa0\x80"}', *BAD),
    "a pair of surrogates": ("/embed", rb'{"inputs": "\ud83e\udd8a"}', *OK),
    "no UTF-8": ("/embed", b'{"inputs": "\xff"}', *BAD),
    "UTF-16": ("/embed", '{"inputs": "a"}'.encode("utf-16"), *BAD),
    "NUL, escaped": ("/embed", rb'{"inputs": "a\u0000b"}', *OK),
    "NUL": ("/embed", b'{"inputs": "a\x00b"}', *BAD),
    "NUL in a name": ("/embed", rb'{"a\u0000b": 1}', 400, "unknown_field"),
    "a token id of 8 bytes": ("/embed", text({"inputs": [2**63]}), 400, "unknown_token"),
    "a token id of 16 bytes": ("/decode", text({"ids": [2**127]}), 400, "unknown_token"),
    "8 million digits": (
        "/embed",
        b'{"inputs": "a", "dimensions": 1%s}' % (b"0" * 8 * 10**6),
        *BAD,
    ),
    "a huge layer": ("/tokens", text({"inputs": "a", "layer": 10**30}), *BAD),
    "a huge top_k": ("/similarity", text({"a": "a", "b": ["b"], "top_k": 10**30}), *OK),
    "NaN": ("/similarity", b'{"a": [[NaN]], "b": [[1]]}', *BAD),
    "infinity": ("/similarity", b'{"a": [[1e999]], "b": [[-Infinity]]}', *BAD),
    "NaN as an option": ("/positions", b'{"scheme": "sinusoidal", "base": NaN}', *BAD),
    "a number for a list": ("/similarity", b'{"a": 0.5, "b": ["b"]}', *BAD),
    "100,000 tokens": ("/embed", text({"inputs": WORDS}), *OK),
    "100,000 tokens, uncut": (
        *("/embed", text({"inputs": WORDS, "on_overflow": "error"})),
        *(400, "input_too_long"),
    ),
    "400,000 tokens in windows": (
        *("/embed", text({"inputs": WORDS * 4, "on_overflow": "mean"})),
        *(TOO_LARGE, "too_many_tokens"),
    ),
    "400,000 tokens described": (
        "/tokenize",
        text({"inputs": WORDS * 4}),
        TOO_LARGE,
        "too_many_tokens",
    ),
    "400,000 ids": ("/decode", text({"ids": [1] * 400_000}), TOO_LARGE, "too_many_tokens"),
    "one word of 200 KB": ("/embed", text({"inputs": "a" * 200_000}), *OK),
    "one word of 4 MB": ("/embed", text({"inputs": "a" * 4 * MB}), 400, "unbroken_text"),
    "10,000 tiny texts": ("/embed", text({"inputs": ["a"] * 10_000}), TOO_LARGE, "too_many_texts"),
    "1 million texts": (
        "/embed",
        many(b'{"inputs":[""', b'""', 999_999),
        TOO_LARGE,
        "too_many_texts",
    ),
    "2 million texts": ("/embed", many(b'{"inputs":[""', b'""', 2_000_000), *TOO_MANY_PARTS),
    "1 million wrong texts": ("/embed", many(b'{"inputs":["a"', b"5.5", 999_999), *BAD),
    "40,000 wrong vectors": (
        *("/similarity", many(b'{"b":["b"],"a":[[1]', b'["a"]', 40_000)),
        *BAD,
    ),
    "1 million vectors": (
        "/similarity",
        many(b'{"b":["b"],"a":[[1]', b"[1]", 1_000_000),
        *TOO_MANY_PARTS,
    ),
    "2 million inputs of no text": (
        *("/v2/embed", many(b'{"inputs":[{}', b"{}", 2_000_000)),
        *TOO_MANY_PARTS,
    ),
    "9,000 unknown fields": ("/embed", fields(b'{"inputs":"a"', 9000), 400, "unknown_field"),
    "600,000 unknown fields": ("/embed", fields(b'{"inputs":"a"', 600_000), *TOO_MANY_PARTS),
    "9,000 unknown fields inside": (
        *("/similarity", fields(b'{"inputs":{"source_sentence":"a"', 9000, b"}}")),
        *(400, "unknown_field"),
    ),
    "600,000 unknown fields inside": (
        *("/similarity", fields(b'{"inputs":{"source_sentence":"a"', 600_000, b"}}")),
        *TOO_MANY_PARTS,
    ),
    "9,000 unknown fields of TEI's parameters": (
        *("/similarity", fields(b'{"parameters":{"prompt":"a"', 9000, b"}}")),
        *(400, "unknown_field"),
    ),
    "a name of 8 MB": ("/embed", b'{"%s": 1}' % (b"k" * 8 * 10**6), 400, "unknown_field"),
    "a model of 8 MB": (
        *("/v1/embeddings", b'{"input": "a", "model": "%s"}' % (b"m" * 8 * 10**6)),
        *(404, "model_not_found"),
    ),
    "500,000 spans": (
        *("/tokens", many(b'{"inputs":"ab","spans":[[[0,1]', b"[0,1]", 500_000, b"]]}")),
        *TOO_MANY_PARTS,
    ),
    "40,000 spans": (
        *("/tokens", many(b'{"inputs":"ab","spans":[[[0,1]', b"[0,1]", 40_000, b"]]}")),
        *(TOO_LARGE, "too_many_values"),
    ),
    "1 million positions": (
        "/positions",
        many(b'{"positions":[0', b"0", 999_999),
        TOO_LARGE,
        "too_many_values",
    ),
    "4 million positions": (
        "/positions",
        many(b'{"positions":[0', b"0", 3_900_000),
        *TOO_MANY_PARTS,
    ),
    "the last of many equal names": (
        *("/embed", many(b'{"inputs": 5', b'"inputs": "a"', 9000, b"}")),
        *OK,
    ),
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("target") / "log") as server:
        server.post("/embed", {"inputs": ["text " * 300] * 50})  # the engine keeps these buffers
        yield server


def http_process(server: Server) -> psutil.Process:
    [process] = server.children(HTTP_PROCESS)
    return process


def cpu_seconds(server: Server) -> float:
    """Seconds of CPU time of the HTTP process."""
    times = http_process(server).cpu_times()
    return times.user + times.system


@pytest.fixture(scope="module")
def memory_before(target: Server) -> list[float]:
    """The memory before the first hostile request."""
    return memory(target)


def memory(server: Server) -> list[float]:
    """Memory of the HTTP process and of the engine, in MB."""
    processes = [http_process(server), psutil.Process(server.engine)]
    return [process.memory_info().rss / MB for process in processes]


@pytest.mark.full(after=20)
@pytest.mark.parametrize("name", CORPUS)
@pytest.mark.usefixtures("memory_before")
def test_a_hostile_request_gets_its_response_and_the_server_stays_ready(
    target: Server, name: str
) -> None:
    path, body, status, code = CORPUS[name]
    before = cpu_seconds(target)
    response = target.client.post(path, content=body)
    if code in REFUSED_WITHOUT_WORK:
        assert cpu_seconds(target) - before < 1
    assert response.status_code == status, response.text[:1000]
    if status != 200:
        assert error_of(response)["code"] == code and len(response.content) < 5000
    assert target.client.get("/ready").status_code == 200


@pytest.mark.full
def test_memory_is_returned_after_these_requests(
    target: Server, memory_before: list[float]
) -> None:
    after = memory(target)
    # The HTTP process keeps 90 MB for later requests: repeated, they take no more.
    assert after[0] - memory_before[0] < 200 and after[1] - memory_before[1] < 50, memory_before


def test_no_error_of_this_module_was_unexpected(target: Server) -> None:
    assert "Traceback" not in target.log


@pytest.mark.full
def test_a_panic_of_the_tokenizer_fails_one_request_alone(tmp_path: Path) -> None:
    write_bert(tmp_path, vocab_size=200)
    with local_server(panicking(tmp_path, "e")) as server:
        for path in ("/embed", "/tokens"):
            assert server.post(path, {"inputs": ["the  work"]}).status_code == 500
            assert server.post(path, {"inputs": ["the work"]}).status_code == 200
