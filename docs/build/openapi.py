"""Write docs/openapi.json, the document of a server: `python -m docs.build.openapi`."""

import asyncio
import json
from pathlib import Path

import httpx

from embedwell.app import create_app
from embedwell.compute.engine_session import EngineSession
from embedwell.engine.wire.engine_state import SharedCounters
from embedwell.inherited import InheritedModel, InheritedServer
from embedwell.settings.settings import Settings
from embedwell_models.hub.sources import DEFAULT, resolve

FILE = Path(__file__).parents[1] / "openapi.json"


async def served() -> bytes:
    """Return the document, which does not depend on the model or on settings."""
    model = InheritedModel(Settings(), resolve(DEFAULT), 0, rows=1, counters_fd=0, connect_fd=0)
    engine = EngineSession(model.connect_engine, SharedCounters.private())
    app = create_app(InheritedServer(Settings(), [model], 0, []), [engine])
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://localhost"
    ) as it:
        return (await it.get("/openapi.json")).raise_for_status().content


FILE.write_text(json.dumps(json.loads(asyncio.run(served())), indent=1) + "\n", encoding="utf-8")
