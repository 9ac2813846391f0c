"""OpenAI's routes of files and batches."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter

from embedwell.routes.common.server_state import ServerState
from embedwell_batches.route_calls import RouteCalls
from embedwell_batches.routes import batches, files
from embedwell_batches.service import BatchService


def router(server: ServerState) -> APIRouter:
    """Create the routes; batches are computed in the background if the settings have a folder."""
    service = None
    if (folder := server.settings.batch_folder) is not None:
        calls = RouteCalls({**server.routes}, server.memory)
        service = BatchService(folder, server.settings, server.models, calls)

    @asynccontextmanager
    async def compute_batches(_: object) -> AsyncIterator[None]:
        if service is None:
            yield
            return
        task = asyncio.create_task(service.run())
        yield
        task.cancel()
        await asyncio.wait([task])

    routes = [*files.router(service).routes, *batches.router(service).routes]
    return APIRouter(routes=routes, lifespan=compute_batches)
