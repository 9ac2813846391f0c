"""Write docs/openapi.json, the document of a server: `python -m deploy.openapi`."""

import asyncio
import json
from pathlib import Path

import httpx

from embedwell.app import create_app
from embedwell.context import ModelContext, ServerContext
from embedwell.engine.client.current_engine import CurrentEngine
from embedwell.process.shared_counters import SharedCounters
from embedwell.settings.settings import Settings
from embedwell_models.hub.sources import DEFAULT, resolve

FILE = Path(__file__).parent.parent / "docs" / "openapi.json"


async def served() -> bytes:
    """Return the document, which does not depend on the model or on settings."""
    model = ModelContext(Settings(), resolve(DEFAULT), 0, rows=1, counters_fd=0, connect_fd=0)
    engine = CurrentEngine(model.connect_engine, SharedCounters.private())
    app = create_app(ServerContext(Settings(), [model], 0, []), [engine])
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://localhost"
    ) as it:
        return (await it.get("/openapi.json")).raise_for_status().content


FILE.write_text(json.dumps(json.loads(asyncio.run(served())), indent=1) + "\n", encoding="utf-8")
