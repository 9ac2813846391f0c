"""Build FastAPI's application: routes, error responses, OpenAPI document, background work."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

from fastapi import APIRouter, FastAPI

from embedwell import __version__
from embedwell.http import handlers
from embedwell.routes import openapi_document
from embedwell.routes.common.router import head_routes

_DESCRIPTION = "Vectors of sentences, tokens and positions, and the cosine between them."

Background = Callable[[], Coroutine[Any, Any, None]]


def fastapi_app(routers: Sequence[APIRouter], background: Sequence[Background] = ()) -> FastAPI:
    """Build FastAPI's application.

    background: work that runs as long as the application, and is cancelled in reverse order.
    """
    app = FastAPI(
        title="embedwell",
        version=__version__,
        description=_DESCRIPTION,
        lifespan=_lifespan(background),
        openapi_url=None,  # openapi_document.router() serves it
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # the address that clients use may be a gateway's
    )
    for router in routers:  # a flat list, from which errors name the routes
        app.router.routes.extend(router.routes)
        app.router.routes.extend(head_routes(router.routes))
    handlers.install(app)
    document = functools.cache(functools.partial(openapi_document.openapi_document, app))
    app.openapi = document  # type: ignore[method-assign]
    return app


def _lifespan(
    background: Sequence[Background],
) -> Callable[[FastAPI], contextlib.AbstractAsyncContextManager[None]]:
    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        running = [asyncio.create_task(run()) for run in background]
        yield
        for task in reversed(running):  # later tasks may need earlier ones
            task.cancel()
            await asyncio.wait([task])

    return lifespan
