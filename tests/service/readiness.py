"""Wait until a server that another program runs is ready."""

import subprocess
import time
from pathlib import Path

import httpx


def wait_ready(client: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until /ready says yes; fails with the log when the program ends, or after 300 s."""
    deadline = time.monotonic() + 300
    while True:
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()
        try:
            if client.get("/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
