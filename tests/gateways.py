"""Real gateways with the configurations in deploy/gateway, and servers that they fail over from."""

from collections.abc import Callable
from pathlib import Path

from tests.http_receiver import HttpReceiver
from tests.nginx import GATEWAY, Gateway, Proxy
from tests.programs import program


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
