"""Transports of httpx to a model of the local server, which start the server if it has ended."""

import asyncio
import json

import httpx

from embedwell_client.local_server import LocalServer


class LocalTransport(httpx.BaseTransport):
    """Sends the requests of a blocking client to a model; raises RequestFailed."""

    def __init__(self, server: LocalServer) -> None:
        self._server, self._http = server, server.transport()
        self._connected = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, again after the server was started or was told the model."""
        if not self._connected:
            self._server.connect()
            self._connected = True
        try:
            response = self._http.handle_request(request)
        except httpx.ConnectError:
            pass  # the server has ended
        else:
            if response.status_code != httpx.codes.NOT_FOUND:
                return response
            response.read()
            if not _lacks_model(response):
                return response
        self._server.connect()
        return self._http.handle_request(request)

    def close(self) -> None:
        self._http.close()


class AsyncLocalTransport(httpx.AsyncBaseTransport):
    """The same for an asyncio client; it starts the server in a thread."""

    def __init__(self, server: LocalServer) -> None:
        self._server, self._http = server, server.async_transport()
        self._connected = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, again after the server was started or was told the model."""
        if not self._connected:
            await asyncio.to_thread(self._server.connect)
            self._connected = True
        try:
            response = await self._http.handle_async_request(request)
        except httpx.ConnectError:
            pass  # the server has ended
        else:
            if response.status_code != httpx.codes.NOT_FOUND:
                return response
            await response.aread()
            if not _lacks_model(response):
                return response
        await asyncio.to_thread(self._server.connect)
        return await self._http.handle_async_request(request)

    async def aclose(self) -> None:
        await self._http.aclose()


def _lacks_model(response: httpx.Response) -> bool:
    # The server was started anew by another program, for another model.
    try:
        return bool(json.loads(response.content)["code"] == "model_not_found")
    except (ValueError, KeyError, TypeError):
        return False
