"""A real nginx with the configuration in deploy/gateway."""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.programs import program

GATEWAY = Path(__file__).parent.parent / "deploy" / "gateway"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Gateway:
    """nginx with the repository's configuration, on a free port and with given upstream servers."""

    def __init__(self, folder: Path, *servers: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        shutil.copy(GATEWAY / "nginx.conf", folder)
        (folder / "listen.conf").write_text(f"listen 127.0.0.1:{self.port};")
        upstream = (GATEWAY / "upstream.conf").read_text()
        lines = [upstream.replace("embedding:8080", server) for server in servers]
        (folder / "upstream.conf").write_text("".join(lines))
        self._log = folder / "log"
        nginx = program("nginx", "nginx-light")
        self._command = [nginx, "-p", str(folder), "-c", str(folder / "nginx.conf")]
        if os.getuid() == 0:  # else its workers run as nobody, who cannot write large bodies here
            self._command += ["-g", "user root;"]

    def __enter__(self) -> "Gateway":
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        for _ in range(3000):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    break
            assert self._process.poll() is None, self.log
            time.sleep(0.02)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(120)

    @property
    def log(self) -> str:
        return self._log.read_text()
