"""Spans of requests with the OpenTelemetry SDK.

The variables OTEL_* configure the destination, the sampling and the service's name:
https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
"""

import asyncio
import time
from collections.abc import Sequence
from threading import Thread
from typing import Any

from opentelemetry import propagate
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode, set_span_in_context
from starlette.types import Scope

from embedwell import __version__
from embedwell.http.request_context import RequestContext
from embedwell_otel.resource import NAME, server_resource

_OPERATIONS = {"rerank", "classify"}
"""Tags of routes that name GenAI operations; routes with other tags have embeddings."""
_UNTRACED = {"/ping", "/live", "/ready", "/health", "/metrics"}
"""Health checks, which come every few seconds."""
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
        self._provider = TracerProvider(resource=server_resource(), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer(NAME, __version__)
        self._models = models

    def record(self, scope: Scope, status: int) -> None:
        """Record a request that has just ended.

        status: status code of its response.
        """
        context: RequestContext = scope["state"]["context"]
        if context.path in _UNTRACED:
            return
        end = time.time_ns()
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

    async def run(self) -> None:
        """Wait until cancelled; then send the remaining spans, for a limited time."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.to_thread(self._flush)

    def _flush(self) -> None:
        thread = Thread(target=self._provider.force_flush, daemon=True)
        thread.start()
        thread.join(_FLUSH)

    def _model_attributes(self, scope: Scope, context: RequestContext) -> dict[str, Any]:
        tags = getattr(scope["route"], "tags", ())
        return {
            "gen_ai.operation.name": next(iter(_OPERATIONS.intersection(tags)), "embeddings"),
            "gen_ai.provider.name": NAME,
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
