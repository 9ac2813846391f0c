"""Cross-origin requests: https://fetch.spec.whatwg.org/#cors-protocol"""

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from embedwell.api.openapi_responses import EXPOSED_HEADERS


def with_cors(app: ASGIApp, origins: str) -> ASGIApp:
    """Let pages of these origins use the application; without origins it is returned as it is.

    Every header is allowed: clients send many, and none that a browser adds by itself, such as
    cookies, grants access here.
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
