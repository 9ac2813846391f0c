"""Cross-origin requests: https://fetch.spec.whatwg.org/#cors-protocol"""

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from embedwell.api.openapi_responses import EXPOSED_HEADERS


def with_cors(app: ASGIApp, origins: str) -> ASGIApp:
    """Allow requests from pages of these origins; without origins, return the app unchanged.

    All headers are allowed: clients send many, and no header that a browser adds by itself, such as
    a cookie, grants access here.
    """
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=origins.split(","),
        allow_methods=("GET", "HEAD", "POST"),
        allow_headers=("*",),
        expose_headers=EXPOSED_HEADERS,
    )
