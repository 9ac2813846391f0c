"""Prometheus metrics of the HTTP process: plain numbers, made into text when they are asked for.

Only the event loop's thread counts, so the locks of Prometheus' own counters are not needed.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from service.call import Call

_SECONDS = (
    *(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0),
)
_TOKENS = tuple(4.0**power for power in range(1, 10))


class Histogram:
    """How many values were at most as large as each bound."""

    def __init__(self, name: str, text: str, bounds: Sequence[float] = _SECONDS) -> None:
        self._name, self._text, self._bounds = f"embedding_{name}", text, bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def collect(self) -> Iterator[Metric]:
        names = [*map(str, self._bounds), "+Inf"]
        buckets = list(zip(names, accumulate(self._counts), strict=True))
        yield HistogramMetricFamily(self._name, self._text, buckets, self._sum)


class Metrics:
    """Counts every answered request; gauges are read when Prometheus asks."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._texts = self._tokens = self._truncated = 0
        self._total = Histogram("request_seconds", "Whole request, in the server.")
        self._tokenize = Histogram("tokenize_seconds", "Tokenising a request.")
        self._queue = Histogram("queue_seconds", "Waiting for the engine.")
        self._compute = Histogram("compute_seconds", "Inside forward passes.")
        self._length = Histogram("request_tokens", "Tokens of a request.", _TOKENS)
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """A value read at every scrape."""
        Gauge(f"embedding_{name}", text, registry=self._registry).set_function(read)

    def observe(self, call: Call, path: str, status: int) -> None:
        """Count an answered request."""
        self._requests[path, status] += 1
        if not call.texts:
            return
        self._texts += call.texts
        self._tokens += call.tokens
        self._truncated += call.truncated
        self._length.observe(call.tokens)
        self._total.observe(call.total_us / 1e6)
        self._tokenize.observe(call.tokenize_us / 1e6)
        self._queue.observe(call.queue_us / 1e6)
        self._compute.observe(call.compute_us / 1e6)

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """What a registry asks of a collector."""
        requests = CounterMetricFamily(
            "embedding_requests", "Answered requests.", labels=("path", "status")
        )
        for (path, status), count in self._requests.items():
            requests.add_metric((path, str(status)), count)
        yield requests
        yield CounterMetricFamily("embedding_texts", "Texts embedded.", self._texts)
        yield CounterMetricFamily("embedding_tokens", "Tokens embedded.", self._tokens)
        yield CounterMetricFamily(
            "embedding_truncated_texts", "Texts cut to the model's length.", self._truncated
        )
        for histogram in (self._total, self._tokenize, self._queue, self._compute, self._length):
            yield from histogram.collect()
