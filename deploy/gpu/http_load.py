"""Send requests on many connections from one process, and time the responses.

python -m deploy.gpu.http_load PORT CLIENTS SECONDS KIND TEXTS FORMAT SEED

KIND: short, passage or long texts. TEXTS: of a request. FORMAT: json, base64 or binary. Responses
are counted, not parsed, so that a core sends as much as it can. The output is one line of JSON.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any, cast

import uvloop

from deploy.loadtest.corpus import Corpus

WORDS = {"short": (4, 12), "passage": (60, 120), "long": (300, 380)}
_TEXTS = 4000  # of all requests, which then repeat
_MIN_REQUESTS = 50


def requests(kind: str, texts: int, response_format: str, seed: int) -> list[bytes]:
    """Return HTTP requests of random texts."""
    corpus = Corpus(random.Random(seed))
    count = _TEXTS // texts + _MIN_REQUESTS
    inputs = [[corpus.cut(*WORDS[kind]) for _ in range(texts)] for _ in range(count)]
    return [_request(each, response_format) for each in inputs]


def _request(texts: list[str], response_format: str) -> bytes:
    path, accept = "/v1/embeddings", "application/json"
    body: dict[str, Any] = {"input": texts}
    if response_format == "base64":
        body["encoding_format"] = "base64"
    elif response_format == "binary":
        path, accept, body = "/embed", "application/octet-stream", {"inputs": texts}
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: {accept}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


class Samples:
    """Seconds of good responses, and the beginnings of others."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.refused: list[bytes] = []

    def summary(self, elapsed: float) -> dict[str, Any]:
        """Return the rate and the percentiles. elapsed: seconds of all samples."""
        ordered = sorted(self.seconds) or [0.0]
        found: dict[str, Any] = {
            "per_s": len(self.seconds) / elapsed,
            "refused": len(self.refused),
            "cpu_s": time.process_time(),
            "p50_ms": 1e3 * ordered[len(ordered) // 2],
            "p99_ms": 1e3 * ordered[int(0.99 * (len(ordered) - 1))],
        }
        if self.refused:
            found["first_refused"] = self.refused[0].decode(errors="replace")
        return found


class Client(asyncio.Protocol):
    """Sends the next request as soon as a response is complete."""

    def __init__(self, pool: Iterator[bytes], samples: Samples) -> None:
        self._pool, self._samples = pool, samples
        self._data = bytearray()
        self._size = 0  # of the response; 0 before its head is complete

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def _send(self) -> None:
        self._data.clear()
        self._size = 0
        self._start = time.perf_counter()
        self._transport.write(next(self._pool))

    def data_received(self, data: bytes) -> None:
        self._data += data
        if not self._size:
            self._read_head()
        if self._size and len(self._data) >= self._size:
            if self._data.startswith(b"HTTP/1.1 200"):
                self._samples.seconds.append(time.perf_counter() - self._start)
            else:
                self._samples.refused.append(bytes(self._data[:80]))
            self._send()

    def _read_head(self) -> None:
        head, separator, _ = bytes(self._data).partition(b"\r\n\r\n")
        if not separator:
            return
        _, name, rest = head.lower().partition(b"content-length:")
        if name:
            self._size = len(head) + len(separator) + int(rest.partition(b"\r\n")[0])
        else:
            self._samples.refused.append(head[:80])
            self._transport.close()


async def load(port: int, clients: int, seconds: float, pool: list[bytes]) -> dict[str, Any]:
    """Send requests for some seconds, after a short warm-up."""
    loop = asyncio.get_running_loop()
    requests, samples = cycle(pool), Samples()
    new_client: Callable[[], Client] = lambda: Client(requests, samples)  # noqa: E731
    connections = [
        await loop.create_connection(new_client, "127.0.0.1", port) for _ in range(clients)
    ]
    await asyncio.sleep(min(1.0, seconds / 4))
    samples.seconds.clear()
    start = time.perf_counter()
    await asyncio.sleep(seconds)
    found = samples.summary(time.perf_counter() - start)
    for transport, _ in connections:
        transport.abort()
    return found


def main() -> None:
    port, clients, seconds, kind, texts, response_format, seed = sys.argv[1:]
    pool = requests(kind, int(texts), response_format, int(seed))
    found = uvloop.run(load(int(port), int(clients), float(seconds), pool))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
