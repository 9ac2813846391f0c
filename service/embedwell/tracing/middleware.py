"""ASGI middleware that records a span for each request."""

import asyncio
import time
from collections.abc import Awaitable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from embedwell.tracing.spans import RequestSpans

_UNTRACED = {
    "/ping",
    "/live",
    "/ready",
    "/health",
    "/metrics",
}  # health checks, which come every few seconds


class TracingMiddleware:
    """ASGI application that wraps that of embedwell.http."""

    def __init__(self, app: ASGIApp, spans: RequestSpans) -> None:
        self._app, self._spans = app, spans

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._trace(scope, receive, send)
        else:
            await self._app(scope, receive, self._flushing(send))

    async def _trace(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = 499

        def send_noting_status(message: Message) -> Awaitable[None]:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            return send(message)

        try:
            await self._app(scope, receive, send_noting_status)
        finally:
            if scope["state"]["context"].path not in _UNTRACED:
                self._spans.record(scope, status, time.time_ns())

    def _flushing(self, send: Send) -> Send:
        """Send the remaining spans before the server ends."""

        async def send_after_flush(message: Message) -> None:
            if message["type"] == "lifespan.shutdown.complete":
                await asyncio.to_thread(self._spans.flush)
            await send(message)

        return send_after_flush
