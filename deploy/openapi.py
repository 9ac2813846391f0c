"""Writes docs/openapi.json, as a server answers it: `python -m deploy.openapi`."""

import asyncio
import json
from pathlib import Path
from socket import socket

import httpx

from models.sources import DEFAULT, resolve
from service.app import create_app
from service.board import Board
from service.engine.link import Link
from service.home import Home
from service.settings import Settings

FILE = Path(__file__).parent.parent / "docs" / "openapi.json"


async def served() -> bytes:
    """The document; nothing in it depends on the model or on settings."""
    home = Home(Settings(), resolve(DEFAULT), port=0, table=0, asking=0)
    app = create_app(home, Link(socket, Board.alone()))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://it") as it:
        return (await it.get("/openapi.json")).raise_for_status().content


FILE.write_text(json.dumps(json.loads(asyncio.run(served())), indent=1) + "\n", encoding="utf-8")
