"""Prometheus metrics of the HTTP process."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from service.call import Call

_SECONDS = (
    *(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0),
)
_TOKENS = tuple(4.0**power for power in range(1, 10))


class Metrics:
    """Counts every answered request; gauges are read when Prometheus asks."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        labels = ("path", "status")
        self._requests = Counter(
            "embedding_requests", "Answered requests.", labels, registry=self._registry
        )
        self._texts = self._counter("texts", "Texts embedded.")
        self._tokens = self._counter("tokens", "Tokens embedded.")
        self._truncated = self._counter("truncated_texts", "Texts cut to the model's length.")
        self._total = self._histogram("request_seconds", "Whole request, in the server.")
        self._tokenize = self._histogram("tokenize_seconds", "Tokenising a request.")
        self._queue = self._histogram("queue_seconds", "Waiting for the engine.")
        self._compute = self._histogram("compute_seconds", "Inside forward passes.")
        self._length = Histogram(
            "embedding_request_tokens",
            "Tokens of a request.",
            buckets=_TOKENS,
            registry=self._registry,
        )

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """A value read at every scrape."""
        Gauge(f"embedding_{name}", text, registry=self._registry).set_function(read)

    def observe(self, call: Call, path: str, status: int) -> None:
        """Count an answered request."""
        self._requests.labels(path, str(status)).inc()
        if not call.texts:
            return
        self._texts.inc(call.texts)
        self._tokens.inc(call.tokens)
        self._truncated.inc(call.truncated)
        self._length.observe(call.tokens)
        self._total.observe(call.total_us / 1e6)
        self._tokenize.observe(call.tokenize_us / 1e6)
        self._queue.observe(call.queue_us / 1e6)
        self._compute.observe(call.compute_us / 1e6)

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self._registry)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"embedding_{name}", text, registry=self._registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(f"embedding_{name}", text, buckets=_SECONDS, registry=self._registry)
