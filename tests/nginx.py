"""A real nginx with the configuration in deploy/gateway."""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

from tests.programs import program

GATEWAY = Path(__file__).parent.parent / "deploy" / "gateway"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Proxy:
    """Process of a gateway on a free port during a `with` block. folder: of its files."""

    stop_signal = signal.SIGTERM
    command: list[str]

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = folder / "log"

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self.command, stdout=log, stderr=log)
        for _ in range(3000):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    break
            assert self._process.poll() is None, self.log
            time.sleep(0.02)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(self.stop_signal)
        self._process.wait(120)

    @property
    def log(self) -> str:
        return self._log.read_text()


class Gateway(Proxy):
    """nginx with the repository's configuration and given upstream servers."""

    stop_signal = signal.SIGQUIT

    def __init__(self, folder: Path, *servers: str) -> None:
        super().__init__(folder)
        shutil.copy(GATEWAY / "nginx.conf", folder)
        (folder / "listen.conf").write_text(f"listen 127.0.0.1:{self.port};")
        upstream = (GATEWAY / "upstream.conf").read_text()
        lines = [upstream.replace("embedwell:8080", server) for server in servers]
        (folder / "upstream.conf").write_text("".join(lines))
        nginx = program("nginx", "nginx-light")
        self.command = [nginx, "-p", str(folder), "-c", str(folder / "nginx.conf")]
        if os.getuid() == 0:  # else its workers run as nobody, who cannot write large bodies here
            self.command += ["-g", "user root;"]
