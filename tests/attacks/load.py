"""Clients that ask again and again, each as soon as it has its answer."""

import asyncio
import json
import threading
import time
from collections import Counter
from types import TracebackType

TEXT = "some innocent words to embed"


class Load:
    """So many clients on a server for as long as the block takes.

    statuses: how often each came, 0 for a connection that broke. seconds: that answers with 200
    took. retry_after: how often each number of seconds was asked for.
    """

    def __init__(self, url: str, clients: int, body: object = None, pause: float = 0.0) -> None:
        """pause: seconds between a client's answer and its next request."""
        self._host, port = url.removeprefix("http://").split(":")
        self._port, self._clients, self._stop = int(port), clients, threading.Event()
        self._pause = pause
        content = json.dumps(body or {"inputs": TEXT}).encode()
        head = f"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(content)}\r\n\r\n"
        self._request = head.encode() + content
        self.statuses: Counter[int] = Counter()
        self.retry_after: Counter[int] = Counter()
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
    def lost(self) -> int:
        """Requests that were not answered with 200."""
        return self.statuses.total() - self.statuses[200]

    def report(self) -> str:
        """Statuses and the times that answers took."""
        times = sorted(self.seconds) or [0.0]
        p50, p99 = (1000 * times[int(share * len(times))] for share in (0.5, 0.99))
        return (
            f"{dict(self.statuses)}, {self.lost} lost, p50 {p50:.1f} ms, p99 {p99:.0f} ms, "
            f"longest {times[-1]:.1f} s"
        )

    async def _run(self) -> None:
        await asyncio.gather(*(self._client() for _ in range(self._clients)))

    async def _client(self) -> None:
        writer = None
        while not self._stop.is_set():
            begun = time.monotonic()
            try:
                if writer is None:
                    reader, writer = await asyncio.open_connection(self._host, self._port)
                writer.write(self._request)
                status, later = await self._answer(reader)
            except (OSError, asyncio.IncompleteReadError):
                status, later, writer = 0, 0.1, None
            self.statuses[status] += 1
            if status == 200:
                self.seconds.append(time.monotonic() - begun)
            await asyncio.sleep(self._pause if status == 200 else max(self._pause, later))
        if writer is not None:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[int, float]:
        """The status, and the seconds that a refused client waits, as it is told."""
        head = await reader.readuntil(b"\r\n\r\n")
        fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:-2])
        await reader.readexactly(int(fields[b"content-length"]))
        later = int(fields.get(b"retry-after", 0))
        if later:
            self.retry_after[later] += 1
        return int(head.split(b" ", 2)[1]), max(0.1, later)
