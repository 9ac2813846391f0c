"""Concurrent clients that send requests one after the other."""

import asyncio
import json
import threading
import time
from collections import Counter
from types import TracebackType

TEXT = "some words to embed"


class Load:
    """Clients of a server for the time of a `with` block.

    statuses: count of each status, 0 for a broken connection. seconds: response times of status
    200. retry_after: count of each value of the header, in seconds. errors: count of each one.
    """

    def __init__(self, url: str, clients: int, body: object = None, pause: float = 0.0) -> None:
        """pause: seconds between a response and the client's next request."""
        self._host, port = url.removeprefix("http://").split(":")
        self._port, self._clients, self._stop = int(port), clients, threading.Event()
        self._pause = pause
        content = json.dumps(body or {"inputs": TEXT}).encode()
        head = f"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(content)}\r\n\r\n"
        self._request = head.encode() + content
        self.statuses: Counter[int] = Counter()
        self.retry_after: Counter[int] = Counter()
        self.errors: Counter[str] = Counter()
        self.seconds: list[float] = []
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def failures(self) -> int:
        """The number of requests without status 200."""
        return self.statuses.total() - self.statuses[200]

    def report(self) -> str:
        """The counts of statuses and the response times."""
        times = sorted(self.seconds) or [0.0]
        p50, p99 = (1000 * times[int(share * len(times))] for share in (0.5, 0.99))
        return (
            f"{dict(self.statuses)}, {self.failures} failed, p50 {p50:.1f} ms, p99 {p99:.0f} ms, "
            f"longest {times[-1]:.1f} s, errors {self.errors.most_common(3)}"
        )

    async def _run(self) -> None:
        await asyncio.gather(*(self._client() for _ in range(self._clients)))

    async def _client(self) -> None:
        writer = None
        while not self._stop.is_set():
            started = time.monotonic()
            try:
                if writer is None:
                    reader, writer = await asyncio.open_connection(self._host, self._port)
                writer.write(self._request)
                status, delay = await self._read_response(reader)
            except (OSError, asyncio.IncompleteReadError) as error:
                self.errors[repr(error)] += 1
                if writer is not None:
                    writer.close()
                status, delay, writer = 0, 0.1, None
            self.statuses[status] += 1
            if status == 200:
                self.seconds.append(time.monotonic() - started)
            await asyncio.sleep(self._pause if status == 200 else max(self._pause, delay))
        if writer is not None:
            writer.close()

    async def _read_response(self, reader: asyncio.StreamReader) -> tuple[int, float]:
        """The status, and the seconds that a refused client waits before it tries again."""
        head = await reader.readuntil(b"\r\n\r\n")
        fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:-2])
        body = await reader.readexactly(int(fields[b"content-length"]))
        status = int(head.split(b" ", 2)[1])
        if status != 200:
            self.errors[body[:100].decode(errors="replace")] += 1
        delay = int(fields.get(b"retry-after", 0))
        if delay:
            self.retry_after[delay] += 1
        return status, max(0.1, delay)
