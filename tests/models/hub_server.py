"""A model hub on a socket: the routes of Hugging Face's that its client asks to fetch a model.

https://huggingface.co/docs/hub/api
"""

import hashlib
import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """Has one repository with one commit, which is the branch main and the tag v1.

    broken: names of files of which only the first half is sent. token: asked for if it is given.
    """

    def __init__(self, name: str, files: Mapping[str, bytes], token: str = "") -> None:
        self.name, self.files, self.token = name, files, token
        self.broken: set[str] = set()
        self.asked: list[str] = []  # paths, in order
        hub = self

        class Handler(_Handler):
            def do_GET(self) -> None:
                self.answer(hub)

            def do_HEAD(self) -> None:
                self.answer(hub)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "Hub":
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.01])
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, path: str) -> tuple[int, bytes, dict[str, str]]:
        """Status, content and headers."""
        revisions = [f"/api/models/{self.name}/revision/{name}" for name in ("main", "v1")]
        if path in revisions:
            return 200, _json({"id": self.name, "sha": COMMIT, "siblings": []}), {}
        if path == f"/api/models/{self.name}/tree/{COMMIT}":
            return 200, _json([_entry(*one) for one in self.files.items()]), {}
        file = path.removeprefix(f"/{self.name}/resolve/{COMMIT}/")
        if file in self.files:
            content = self.files[file]
            return 200, content, {"ETag": f'"{_digest(content)}"', "X-Repo-Commit": COMMIT}
        known = path.startswith(f"/api/models/{self.name}/")
        return 404, b"", {"X-Error-Code": "RevisionNotFound" if known else "RepoNotFound"}


class _Handler(BaseHTTPRequestHandler):
    def answer(self, hub: Hub) -> None:
        path = self.path.partition("?")[0]
        hub.asked.append(path)
        if hub.token and self.headers["authorization"] != f"Bearer {hub.token}":
            status, content, headers = 401, b"", {"X-Error-Code": "GatedRepo"}
        else:
            status, content, headers = hub.answer(path)
        self.send_response(status)
        for name, text in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, text)
        self.end_headers()
        if self.command == "GET":
            half = path.rpartition("/")[2] in hub.broken
            self.wfile.write(content[: len(content) // 2] if half else content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _digest(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def _entry(path: str, content: bytes) -> dict[str, Any]:
    return {"type": "file", "path": path, "size": len(content), "oid": _digest(content)}


POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{7:064}\nsize 90868376\n"
