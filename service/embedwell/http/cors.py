"""Cross-origin requests: https://fetch.spec.whatwg.org/#cors-protocol"""

from collections.abc import Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from embedwell.http.local_origins import PATTERN, is_local_origin


def with_cors(app: ASGIApp, origins: str, exposed_headers: Sequence[str]) -> ASGIApp:
    """Allow requests from pages of these origins, and from local ones.

    All headers are allowed: clients send many, and no header that a browser adds by itself, such as
    a cookie, grants access here.

    exposed_headers: headers of responses that scripts may read.
    """
    cors = CORSMiddleware(
        app,
        allow_origins=origins.split(",") if origins else (),
        allow_methods=("DELETE", "GET", "HEAD", "POST"),
        allow_headers=("*",),
        allow_origin_regex=PATTERN,
        expose_headers=exposed_headers,
    )
    return cors if origins else LocalCors(app, cors)


class LocalCors:
    """ASGI application with CORS headers for local origins, without any for other requests."""

    def __init__(self, app: ASGIApp, cors: ASGIApp) -> None:
        """cors: `app` with CORS headers."""
        self._app, self._cors = app, cors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._cors if _is_local(scope) else self._app
        await app(scope, receive, send)


def _is_local(scope: Scope) -> bool:
    for name, value in scope.get("headers", ()):
        if name == b"origin":
            return is_local_origin(value.decode("latin-1"))
    return False
