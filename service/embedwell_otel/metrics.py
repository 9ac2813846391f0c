"""Send the metrics of /metrics over OTLP with the OpenTelemetry SDK.

The variables OTEL_* configure the destination, the service's name and the interval,
OTEL_METRIC_EXPORT_INTERVAL in milliseconds:
https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
"""

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from threading import Thread
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.metrics_core import Metric as PrometheusMetric

from embedwell import __version__
from embedwell_otel.resource import NAME, server_resource

_INTERVAL = "60000"  # milliseconds, OpenTelemetry's default
_FLUSH = 2.0  # seconds to send the last values when the server stops
_CUMULATIVE = AggregationTemporality.CUMULATIVE


class MetricsExport:
    """Sends all metrics of a server, over all of its processes, at an interval."""

    def __init__(self, collect: Callable[[], Iterable[PrometheusMetric]], started: int) -> None:
        """started: start time of the server, from which totals count, in seconds since 1970."""
        self._collect, self._started = collect, started * 1_000_000_000
        self._interval = float(os.environ.get("OTEL_METRIC_EXPORT_INTERVAL", _INTERVAL)) / 1000
        self._exporter, self._resource = OTLPMetricExporter(), server_resource()
        self._sending: Thread | None = None

    async def run(self) -> None:
        """Send until cancelled; then send the last values, for a limited time."""
        try:
            while True:
                await asyncio.sleep(self._interval)
                self._send()
        finally:
            await asyncio.to_thread(self._send().join, _FLUSH)

    def _send(self) -> Thread:
        """Send the present values in a thread, unless the last ones are still being sent."""
        if self._sending is None or not self._sending.is_alive():
            now, scope = time.time_ns(), InstrumentationScope(NAME, __version__)
            metrics = [otlp_metric(each, self._started, now) for each in self._collect()]
            of_scope = ScopeMetrics(scope, metrics, schema_url="")
            data = MetricsData([ResourceMetrics(self._resource, [of_scope], schema_url="")])
            self._sending = Thread(target=self._exporter.export, args=[data], daemon=True)
            self._sending.start()
        return self._sending


def otlp_metric(metric: PrometheusMetric, start: int, now: int) -> Metric:
    """Convert a counter, gauge or histogram of Prometheus.

    start, now: when totals began, and the time of the values, in nanoseconds since 1970.
    """
    unit = "s" if metric.name.endswith("_seconds") else ""
    data: Sum | Gauge | Histogram
    if metric.type == "histogram":
        data = Histogram(_distributions(metric, start, now), _CUMULATIVE)
    else:
        points = [
            NumberDataPoint(each.labels, start, now, float(each.value)) for each in metric.samples
        ]
        data = Sum(points, _CUMULATIVE, True) if metric.type == "counter" else Gauge(points)
    return Metric(metric.name, metric.documentation, unit, data)


def _distributions(metric: PrometheusMetric, start: int, now: int) -> list[HistogramDataPoint]:
    buckets: dict[tuple[tuple[str, str], ...], dict[float, float]] = defaultdict(dict)
    sums = {}
    for sample in metric.samples:
        labels = tuple((name, value) for name, value in sample.labels.items() if name != "le")
        if sample.name.endswith("_bucket"):
            buckets[labels][float(sample.labels["le"])] = sample.value
        elif sample.name.endswith("_sum"):
            sums[labels] = sample.value
    points = []
    for labels, of_bounds in buckets.items():
        bounds = sorted(of_bounds)
        totals = [0.0, *(of_bounds[bound] for bound in bounds)]
        counts = [int(after - before) for before, after in pairwise(totals)]
        values = (
            int(totals[-1]),
            float(sums[labels]),
            counts,
            bounds[:-1],
        )  # the last bound is infinite
        unknown: Any = None  # smallest and largest value
        points.append(HistogramDataPoint(dict(labels), start, now, *values, unknown, unknown))
    return points
