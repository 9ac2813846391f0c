"""Real gateways with the configurations in deploy/gateway, and servers that they fail over from."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

from tests.nginx import GATEWAY, Proxy
from tests.programs import program


def configuration(name: str, **replaced: str) -> str:
    """The text of a configuration, in which each key, which occurs once, is replaced."""
    text = (GATEWAY / name).read_text(encoding="utf-8")
    for old, new in replaced.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


class Haproxy(Proxy):
    """HAProxy with the repository's configuration and given upstream servers."""

    def __init__(self, folder: Path, *servers: str) -> None:
        super().__init__(folder)
        template = "server-template embedding 1-10 embedding:8080 resolvers system init-addr none"
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
            configuration("Caddyfile", **listen, **{"embedding:8080": " ".join(servers)})
        )
        self.command = [program("caddy", "caddy"), "run", "--config", str(file)]


class Upstream:
    """A server that answers every POST with one status, for the time of a `with` block.

    ready: the status of /ready. posts: the requests so far. host: its address.
    """

    def __init__(self, status: int, ready: int = 200) -> None:
        self.status, self.ready, self.posts = status, ready, 0
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._respond(upstream.ready if self.path == "/ready" else 200)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                upstream.posts += 1
                self._respond(upstream.status)

            def _respond(self, status: int) -> None:
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
