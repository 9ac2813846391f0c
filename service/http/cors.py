"""What browsers are told of pages of other origins: https://fetch.spec.whatwg.org/#cors-protocol"""

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from service.api.openapi_responses import TELLING


def shared(app: ASGIApp, origins: str) -> ASGIApp:
    """An application for the pages of these origins, too; as it is where there are none.

    Nothing that a browser adds by itself, as cookies, lets anybody in here. So every header may be
    sent: those of some clients are many.
    """
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=origins.split(","),
        allow_methods=("GET", "HEAD", "POST"),
        allow_headers=("*",),
        expose_headers=TELLING,
    )
