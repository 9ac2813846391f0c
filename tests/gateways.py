"""Real gateways with the configurations in deploy/gateway, and servers that they fail over from."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from tests.http_receiver import HttpReceiver
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

    def __init__(self, folder: Path, *servers: str, certificate: tuple[Path, Path] | None = None):
        """certificate: files of a certificate and its key, for HTTPS."""
        super().__init__(folder)
        shutil.copy(GATEWAY / "nginx.conf", folder)
        listen = f"listen 127.0.0.1:{self.port};"
        if certificate is not None:
            self.url = self.url.replace("http:", "https:")
            files = dict(
                zip(("/etc/gateway/tls.crt", "/etc/gateway/tls.key"), certificate, strict=True)
            )
            address = {"listen 443 ssl": f"listen 127.0.0.1:{self.port} ssl"}
            listen = configuration(
                "listen-tls.conf", **address, **{k: str(v) for k, v in files.items()}
            )
        (folder / "listen.conf").write_text(listen)
        upstream = (GATEWAY / "upstream.conf").read_text()
        lines = [upstream.replace("embedwell:8080", server) for server in servers]
        (folder / "upstream.conf").write_text("".join(lines))
        nginx = program("nginx", "nginx-light")
        self.command = [nginx, "-p", str(folder), "-c", str(folder / "nginx.conf")]
        if os.getuid() == 0:  # else its workers run as nobody, who cannot write large bodies here
            self.command += ["-g", "user root;"]


def configuration(name: str, **replaced: str) -> str:
    """Return the text of a configuration, with each key replaced; each key must occur once."""
    text = (GATEWAY / name).read_text(encoding="utf-8")
    for old, new in replaced.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


class Haproxy(Proxy):
    """HAProxy with the repository's configuration and given upstream servers."""

    def __init__(self, folder: Path, *servers: str) -> None:
        super().__init__(folder)
        template = "server-template embedwell 1-10 embedwell:8080 resolvers system init-addr none"
        lines = [f"server s{number} {server}" for number, server in enumerate(servers)]
        listen = {"bind :8080": f"bind 127.0.0.1:{self.port}"}
        file = folder / "haproxy.cfg"
        file.write_text(configuration("haproxy.cfg", **listen, **{template: "\n    ".join(lines)}))
        self.command = [program("haproxy", "haproxy"), "-f", str(file)]


class Caddy(Proxy):
    """Caddy with the repository's configuration and given upstream servers."""

    def __init__(self, folder: Path, *servers: str) -> None:
        super().__init__(folder)
        listen = {"\n:8080 {": f"\nhttp://127.0.0.1:{self.port} {{"}
        file = folder / "Caddyfile"
        file.write_text(
            configuration("Caddyfile", **listen, **{"embedwell:8080": " ".join(servers)})
        )
        self.command = [program("caddy", "caddy"), "run", "--config", str(file)]


GATEWAYS: dict[str, Callable[..., Proxy]] = {"nginx": Gateway, "haproxy": Haproxy, "caddy": Caddy}


class Upstream(HttpReceiver):
    """A server that answers every POST with one status.

    ready: the status of /ready. posts: the requests so far.
    """

    def __init__(self, status: int, ready: int = 200) -> None:
        super().__init__(keep_alive=True)
        self.status, self.ready, self.posts = status, ready, 0

    def get(self, path: str) -> int:
        return self.ready if path == "/ready" else 200

    def post(self, path: str, body: bytes) -> int:
        self.posts += 1
        return self.status
