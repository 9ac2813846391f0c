"""Prometheus metrics of all HTTP processes, counted in shared memory and rendered on request.

Only the thread of the event loop counts, so the locks of prometheus_client's counters are not
needed.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from http import HTTPStatus
from itertools import accumulate, product

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from service.process.shared_counters import SharedCounters
from service.request.request_context import RequestContext

OTHER = "other"  # the path of requests that match no route or are malformed
_STATUSES = (*(status.value for status in HTTPStatus), 499)  # nginx's for a closed connection
_SECONDS = (
    *(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0),
)
_TOKENS = tuple(4.0**power for power in range(1, 10))


class Histogram:
    """Prometheus histogram in the shared counters. bounds: upper limits of its buckets."""

    def __init__(
        self, counters: SharedCounters, name: str, text: str, bounds: Sequence[float] = _SECONDS
    ) -> None:
        self._name, self._text, self._bounds = f"embedding_{name}", text, bounds
        self._counters, self._row = counters, counters.row
        self._counts, self._sum = counters.allocate(len(bounds) + 1), counters.allocate()

    def observe(self, value: float) -> None:
        """Count a value."""
        self._row[self._counts + bisect_left(self._bounds, value)] += 1
        self._row[self._sum] += value

    def collect(self) -> Iterator[Metric]:
        """Yield the metric of all processes, for prometheus_client."""
        names = [*map(str, self._bounds), "+Inf"]
        counts = (self._counters.total(self._counts + i) for i in range(len(names)))
        buckets = list(zip(names, accumulate(counts), strict=True))
        yield HistogramMetricFamily(
            self._name, self._text, buckets, self._counters.total(self._sum)
        )


class Metrics:
    """Counts answered requests; gauges are read when Prometheus scrapes."""

    def __init__(self, counters: SharedCounters) -> None:
        self._counters, self._row = counters, counters.row
        self._requests: dict[tuple[str, int], int] = {}
        self.track([OTHER])
        self._texts, self._tokens = counters.allocate(), counters.allocate()
        self._truncated, self._cached = counters.allocate(), counters.allocate()
        self._total = Histogram(counters, "request_seconds", "Whole request, in the server.")
        self._tokenize = Histogram(counters, "tokenize_seconds", "Tokenising a request.")
        self._queue = Histogram(counters, "queue_seconds", "Waiting for the engine.")
        self._compute = Histogram(counters, "compute_seconds", "Inside forward passes.")
        self._length = Histogram(counters, "request_tokens", "Tokens of a request.", _TOKENS)
        self._external: list[tuple[str, str, Callable[[], float]]] = []
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def track(self, paths: Iterable[str]) -> None:
        """Count the requests of these paths; those of all others are counted together."""
        for path_and_status in product(paths, _STATUSES):
            self._requests[path_and_status] = self._counters.allocate()

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Register a value that is read at every scrape."""
        Gauge(f"embedding_{name}", text, registry=self._registry).set_function(read)

    def counter(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Register a total that another module counts, read at every scrape."""
        self._external.append((f"embedding_{name}", text, read))

    def observe(self, context: RequestContext, path: str, status: int) -> None:
        """Count an answered request, and its texts, tokens and times if it succeeded."""
        row = self._row
        row[self._requests.get((path, status), self._requests[OTHER, status])] += 1
        if not context.texts or status >= HTTPStatus.BAD_REQUEST:
            return
        row[self._texts] += context.texts
        row[self._tokens] += context.tokens
        row[self._truncated] += context.truncated
        row[self._cached] += context.cached
        self._length.observe(context.tokens)
        self._total.observe(context.total_us / 1e6)
        self._tokenize.observe(context.tokenize_us / 1e6)
        self._queue.observe(context.queue_us / 1e6)
        self._compute.observe(context.compute_us / 1e6)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, for prometheus_client."""
        total = self._counters.total
        requests = CounterMetricFamily(
            "embedding_requests", "Answered requests.", labels=("path", "status")
        )
        for (path, status), slot in self._requests.items():
            if count := total(slot):
                requests.add_metric((path, str(status)), count)
        yield requests
        yield CounterMetricFamily("embedding_texts", "Texts embedded.", total(self._texts))
        yield CounterMetricFamily("embedding_tokens", "Tokens embedded.", total(self._tokens))
        yield CounterMetricFamily(
            "embedding_truncated_texts",
            "Texts cut to the model's length.",
            total(self._truncated),
        )
        yield CounterMetricFamily(
            "embedding_cached_vectors", "Vectors that were computed before.", total(self._cached)
        )
        for name, text, read in self._external:
            yield CounterMetricFamily(name, text, read())
        for histogram in (self._total, self._tokenize, self._queue, self._compute, self._length):
            yield from histogram.collect()
