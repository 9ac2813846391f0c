"""Spans of requests with the OpenTelemetry SDK, and the middleware that records them.

It is imported only if traces are enabled.

The variables OTEL_* configure the destination, the sampling and the service's name:
https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
"""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from threading import Thread
from typing import Any

from opentelemetry import propagate
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode, set_span_in_context
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from embedwell import __version__
from embedwell.http.request_context import RequestContext

_NAME = "embedwell"
_OPERATIONS = {"rerank": "rerank", "classify": "classify", "text": "tokenize"}
"""Maps tags of routes to GenAI operations; routes with other tags have embeddings."""
_FLUSH = 2.0  # seconds to send the last spans when the server stops


class RequestSpans:
    """Records a span for each request, with a child span for each stage, after the response.

    Attributes follow the conventions for HTTP servers and for generative AI:
    https://opentelemetry.io/docs/specs/semconv/http/http-spans/#http-server-span
    https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/#embeddings
    """

    def __init__(self, models: Sequence[str]) -> None:
        """Start the thread that sends spans.

        models: names of the models.
        """
        defaults = {"service.name": _NAME, "service.version": __version__}
        variables = (
            OTELResourceDetector().detect().attributes
        )  # the propagators that OTEL_* configures
        resource = Resource.create({**defaults, **variables})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer(_NAME, __version__)
        self._models = models

    def record(self, scope: Scope, status: int, end: int) -> None:
        """Record a request.

        status: status code of its response.
        end: time in nanoseconds since 1970.
        """
        context: RequestContext = scope["state"]["context"]
        start = end - 1000 * context.total_us
        attributes = _http_attributes(scope, status)
        if context.texts:
            attributes |= self._model_attributes(scope, context)
        route = attributes.get("http.route")
        span = self._tracer.start_span(
            f"{scope['method']} {route}" if route else scope["method"],
            propagate.extract(_carrier(scope)),
            SpanKind.SERVER,
            attributes,
            start_time=start,
        )
        if span.is_recording():
            self._record_stages(span, context, start)
            if status >= 500:
                span.set_status(StatusCode.ERROR)
        span.end(end)

    def flush(self) -> None:
        """Send the remaining spans, for a limited time."""
        thread = Thread(target=self._provider.force_flush, daemon=True)
        thread.start()
        thread.join(_FLUSH)

    def _model_attributes(self, scope: Scope, context: RequestContext) -> dict[str, Any]:
        tags = getattr(scope["route"], "tags", ())
        return {
            "gen_ai.operation.name": next(
                (_OPERATIONS[tag] for tag in tags if tag in _OPERATIONS), "embeddings"
            ),
            "gen_ai.provider.name": _NAME,
            "gen_ai.request.model": self._models[context.model_index],
            "gen_ai.usage.input_tokens": context.tokens,
            "embedwell.texts": context.texts,
            "embedwell.truncated_texts": context.truncated,
            "embedwell.cached_vectors": context.cached,
        }

    def _record_stages(self, request: Span, context: RequestContext, start: int) -> None:
        """Record spans of the stages, each from the end of the previous one."""
        parent = set_span_in_context(request)
        at = start + max(0, round((context.tokenize_start - context.started) * 1e9))
        for name in ("tokenize", "queue", "compute"):
            microseconds = getattr(context, f"{name}_us")
            if microseconds:
                span = self._tracer.start_span(name, parent, start_time=at)
                at += microseconds * 1000
                span.end(at)


def _http_attributes(scope: Scope, status: int) -> dict[str, Any]:
    context: RequestContext = scope["state"]["context"]
    attributes = {
        "http.request.method": scope["method"],
        "url.path": scope["path"],
        "url.scheme": scope["scheme"],
        "http.response.status_code": status,
        "embedwell.request_id": context.id,
    }
    if (route := getattr(scope["route"], "path", None)) is not None:
        attributes["http.route"] = route
    if status >= 500:
        attributes["error.type"] = str(status)
    return attributes


def _carrier(scope: Scope) -> dict[str, list[str]]:
    """Return the request's headers, in which propagators look for the sender's trace."""
    carrier: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        carrier.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
    return carrier


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
