"""Cross-origin requests: https://fetch.spec.whatwg.org/#cors-protocol"""

from collections.abc import Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp


def with_cors(app: ASGIApp, origins: str, exposed_headers: Sequence[str]) -> ASGIApp:
    """Allow requests from pages of these origins; without origins, return the app unchanged.

    All headers are allowed: clients send many, and no header that a browser adds by itself, such as
    a cookie, grants access here.

    exposed_headers: headers of responses that scripts may read.
    """
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=origins.split(","),
        allow_methods=("DELETE", "GET", "HEAD", "POST"),
        allow_headers=("*",),
        expose_headers=exposed_headers,
    )
