"""Interfaces of the exports of spans and metrics, which the wing of OpenTelemetry implements."""

from typing import Protocol

from starlette.types import Scope


class RequestSpans(Protocol):
    """Records a span for each request, and sends the spans."""

    def record(self, scope: Scope, status: int) -> None:
        """Record a request that has just ended. status: status code of its response."""

    async def run(self) -> None:
        """Wait until cancelled; then send the remaining spans, for a limited time."""


class MetricsExport(Protocol):
    """Sends all metrics of a server at an interval."""

    async def run(self) -> None:
        """Send until cancelled; then send the last values, for a limited time."""
