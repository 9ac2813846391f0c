"""Measures what an attack does to a server's memory and to the requests of other clients."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.service.server import Server

MB = 1 << 20
RETURNED = 150  # MB that may stay when the memory of an attack counts as returned


@dataclass
class AttackReport:
    """The measurements of an attack, filled in at its end.

    before, peak, after: memory of all processes of the servers in MB. seconds: response times of
    the background clients. failures: their requests that failed.
    """

    before: float = 0.0
    peak: float = 0.0
    after: float = 0.0
    seconds: list[float] = field(default_factory=list, repr=False)
    failures: list[str] = field(default_factory=list, repr=False)

    def check(self, growth: float) -> None:
        """Fail if the memory grew by more MB, or if any background request failed."""
        assert self.seconds and not self.failures, self.failures[:3]
        assert self.peak - self.before <= growth, self

    def __str__(self) -> str:
        p99 = sorted(self.seconds)[int(0.99 * len(self.seconds))] if self.seconds else 0.0
        return (
            f"memory {self.before:.0f} MB, at most {self.peak:.0f}, then {self.after:.0f}; "
            f"{len(self.seconds)} background requests, {len(self.failures)} failed, "
            f"p99 {1000 * p99:.0f} ms"
        )


@contextlib.contextmanager
def attack(
    name: str, *servers: Server, url: str = "", inputs: Sequence[object] = ("a short text",)
) -> Iterator[AttackReport]:
    """Measure while the block attacks, and print the report.

    url: where the background clients send their requests; that of the first server by default.
    inputs: what they embed in turn.
    """
    report, processes = AttackReport(), _processes(servers)
    report.before = _memory(processes)
    for process in processes:
        Path(f"/proc/{process.pid}/clear_refs").write_text("5")  # resets the peak: man 5 proc
    with subprocess.Popen(
        [sys.executable, "-m", "tests.attacks.background_clients", url or servers[0].url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as background:
        assert background.stdin is not None and background.stdout is not None
        background.stdin.write(json.dumps([{"inputs": each} for each in inputs]) + "\n")
        background.stdin.flush()
        background.stdout.readline()
        try:
            yield report
        finally:
            report.after = _settled_memory(processes, report.before)
            report.peak = sum(map(_peak, processes))
            results = json.loads(background.communicate()[0])
            report.seconds, report.failures = results["seconds"], results["failures"]
            sys.stdout.write(f"\n{name}: {report}\n")


def _processes(servers: Sequence[Server]) -> list[psutil.Process]:
    parents = [psutil.Process(server.process.pid) for server in servers]
    return [process for parent in parents for process in (parent, *parent.children(recursive=True))]


def _memory(processes: Sequence[psutil.Process]) -> float:
    alive = [process for process in processes if process.is_running()]
    return sum(process.memory_info().rss for process in alive) / MB


def _settled_memory(processes: Sequence[psutil.Process], before: float) -> float:
    """Memory in MB once what the attack took is returned, or after a minute."""
    deadline = time.monotonic() + 60
    time.sleep(0.5)
    while _memory(processes) - before >= RETURNED and time.monotonic() < deadline:
        time.sleep(0.5)
    return _memory(processes)


def _peak(process: psutil.Process) -> float:
    """Peak memory in MB; 0 for a process that has ended."""
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024
    return 0.0


def address(url: str) -> tuple[str, int]:
    host, port = url.removeprefix("http://").split(":")
    return host, int(port)


def connect(url: str, seconds: float = 60) -> socket.socket:
    return socket.create_connection(address(url), timeout=seconds)


def unread_bytes(url: str) -> int:
    """Return how many bytes of all clients the kernel holds until the server reads them."""
    port = f":{address(url)[1]:04X}"
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    unsent = [each[4].split(":")[0] for each in sockets if each[2].endswith(port)]  # man 5 proc
    unread = [each[4].split(":")[1] for each in sockets if each[1].endswith(port)]
    return sum(int(size, 16) for size in [*unsent, *unread])


def flood(url: str, connections: int, payload: bytes, seconds: float, least: int = 0) -> list[int]:
    """Send the payload on each connection and read the responses, for `seconds`.

    least: bytes; it lasts up to two minutes until a connection has received so many.
    Returns the number of bytes received on each connection.
    """
    start = time.monotonic()

    def lasts() -> bool:
        return time.monotonic() < start + (seconds if max(received) >= least else 120)

    def run_connection(index: int) -> None:
        unsent = memoryview(payload)
        with connect(url, 0.2) as connection, contextlib.suppress(ConnectionError):
            while lasts():
                with contextlib.suppress(TimeoutError):
                    if unsent:
                        unsent = unsent[connection.send(unsent) :]
                with contextlib.suppress(TimeoutError):
                    chunk = connection.recv(1 << 20)
                    received[index] += len(chunk)
                    if not chunk:
                        return

    received = [0] * connections
    threads = [
        threading.Thread(target=run_connection, args=(index,)) for index in range(connections)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return received


def post(path: str, body: Any) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(content)}\r\n\r\n"
    return head.encode() + content


ROWS = [[float(index), 1.0] for index in range(1999)]
