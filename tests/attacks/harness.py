"""What an attack does to a server: its memory, and the requests of others meanwhile."""

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

import psutil

from tests.service.server import Server

MB = 1 << 20


@dataclass
class Attack:
    """Filled when the attack is over. Memory is in MB, of all processes of the servers.

    seconds: of each request of an innocent client that was answered. lost: of those that were not.
    """

    before: float = 0.0
    peak: float = 0.0
    after: float = 0.0
    seconds: list[float] = field(default_factory=list, repr=False)
    lost: list[str] = field(default_factory=list, repr=False)

    def check(self, growth: float) -> None:
        """Fails for more memory than that, and for a single request of others that was lost."""
        assert self.seconds and not self.lost, self.lost[:3]
        assert self.peak - self.before <= growth, self

    def __str__(self) -> str:
        p99 = sorted(self.seconds)[int(0.99 * len(self.seconds))] if self.seconds else 0.0
        return (
            f"memory {self.before:.0f} MB, at most {self.peak:.0f}, then {self.after:.0f}; "
            f"{len(self.seconds)} requests of others, {len(self.lost)} lost, "
            f"p99 {1000 * p99:.0f} ms"
        )


@contextlib.contextmanager
def attack(name: str, *servers: Server, url: str = "") -> Iterator[Attack]:
    """Watches while the block attacks, and prints what it did. url: where innocents ask."""
    report, processes = Attack(), _processes(servers)
    report.before = _memory(processes)
    for process in processes:
        Path(f"/proc/{process.pid}/clear_refs").write_text("5")  # the peak so far: man 5 proc
    with subprocess.Popen(
        [sys.executable, "-m", "tests.attacks.innocents", url or servers[0].url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as innocents:
        assert innocents.stdout is not None
        innocents.stdout.readline()
        try:
            yield report
        finally:
            time.sleep(0.5)
            report.after = _memory(processes)
            report.peak = sum(map(_peak, processes))
            found = json.loads(innocents.communicate()[0])
            report.seconds, report.lost = found["seconds"], found["lost"]
            sys.stdout.write(f"\n{name}: {report}\n")


def _processes(servers: Sequence[Server]) -> list[psutil.Process]:
    parents = [psutil.Process(server.process.pid) for server in servers]
    return [each for parent in parents for each in (parent, *parent.children(recursive=True))]


def _memory(processes: Sequence[psutil.Process]) -> float:
    alive = [process for process in processes if process.is_running()]
    return sum(process.memory_info().rss for process in alive) / MB


def _peak(process: psutil.Process) -> float:
    """The most memory in MB; 0 of a process that is no more."""
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024
    return 0.0


def address(url: str) -> tuple[str, int]:
    host, port = url.removeprefix("http://").split(":")
    return host, int(port)


def connect(url: str, seconds: float = 60) -> socket.socket:
    return socket.create_connection(address(url), timeout=seconds)


def flood(url: str, connections: int, payload: bytes, seconds: float) -> list[int]:
    """Sends the payload on each connection and reads what comes back, for so long at most.

    Returns the bytes that came on each.
    """
    until = time.monotonic() + seconds

    def one(index: int) -> None:
        rest = memoryview(payload)
        with connect(url, 0.2) as connection, contextlib.suppress(ConnectionError):
            while time.monotonic() < until:
                with contextlib.suppress(TimeoutError):
                    if rest:
                        rest = rest[connection.send(rest) :]
                with contextlib.suppress(TimeoutError):
                    part = connection.recv(1 << 20)
                    received[index] += len(part)
                    if not part:
                        return

    received = [0] * connections
    threads = [threading.Thread(target=one, args=(index,)) for index in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return received
