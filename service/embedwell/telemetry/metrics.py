"""Prometheus metrics of all HTTP processes, counted in shared memory and rendered on request.

Only the event loop's thread counts, so the locks of prometheus_client's counters are not needed.
The first request for the metrics imports it, with a server of HTTP that it brings.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from itertools import accumulate, product
from typing import TYPE_CHECKING, Literal

from embedwell.compute.engine_session import EngineSession
from embedwell.compute.served_model import ServedModel
from embedwell.engine.wire.engine_state import SharedCounters
from embedwell.errors import ClientDisconnected
from embedwell.http.request_context import RequestContext

if TYPE_CHECKING:
    from prometheus_client.core import HistogramMetricFamily, Metric

OTHER = "other"  # the path of requests that match no route or are malformed
_STATUSES = (*(status.value for status in HTTPStatus), ClientDisconnected.status)
_OFFSETS = {status: offset for offset, status in enumerate(_STATUSES)}
_BAD_REQUEST = int(HTTPStatus.BAD_REQUEST)  # reading an attribute of an enum is as slow as a call
_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_TOKENS = tuple(4.0**power for power in range(1, 10))

_Kind = Literal["counter", "gauge"]
_External = tuple[_Kind, str, str, Sequence[Callable[[], float]]]


class Histogram:
    """Prometheus histogram in the shared counters.

    bounds: upper limits of its buckets.
    """

    def __init__(
        self, counters: SharedCounters, name: str, text: str, bounds: Sequence[float] = _SECONDS
    ) -> None:
        self._name, self._text, self._bounds = f"embedwell_{name}", text, bounds
        self._counters, self._row = counters, counters.row
        self._counts, self._sum = counters.allocate(len(bounds) + 1), counters.allocate()

    def observe(self, value: float) -> None:
        """Count a value."""
        self._row[self._counts + bisect_left(self._bounds, value)] += 1
        self._row[self._sum] += value

    def add_to(self, family: "HistogramMetricFamily", labels: Sequence[str] = ()) -> None:
        """Add the counts of all processes to a metric.

        labels: values of its labels.
        """
        names = [*map(str, self._bounds), "+Inf"]
        counts = (self._counters.total(self._counts + i) for i in range(len(names)))
        buckets = list(zip(names, accumulate(counts), strict=True))
        family.add_metric(labels, buckets, self._counters.total(self._sum))

    def family(self, labels: Sequence[str] = ()) -> "HistogramMetricFamily":
        """Return the metric without its counts.

        labels: names of its labels.
        """
        from prometheus_client.core import HistogramMetricFamily

        return HistogramMetricFamily(self._name, self._text, labels=labels)


class ModelMetrics:
    """Counts the texts, tokens and times of one model's requests."""

    def __init__(self, counters: SharedCounters) -> None:
        self._counters, self._row = counters, counters.row
        self._texts, self._tokens = counters.allocate(), counters.allocate()
        self._truncated, self._cached = counters.allocate(), counters.allocate()
        self._total = Histogram(counters, "request_seconds", "Duration of a request in the server.")
        self._tokenize = Histogram(counters, "tokenize_seconds", "Time to tokenise a request.")
        self._queue = Histogram(
            counters, "queue_seconds", "Time that a request waits for the engine."
        )
        self._compute = Histogram(
            counters, "compute_seconds", "Time of a request in forward passes."
        )
        self._length = Histogram(counters, "request_tokens", "Tokens of a request.", _TOKENS)

    @property
    def histograms(self) -> Sequence[Histogram]:
        """Distributions of times and of tokens of requests."""
        return (self._total, self._tokenize, self._queue, self._compute, self._length)

    def totals(self) -> Iterator[tuple[str, str, float]]:
        """Yield the name, description and value of each total over all processes."""
        for name, text, slot in (
            ("texts", "Texts embedded.", self._texts),
            ("tokens", "Tokens embedded.", self._tokens),
            ("truncated_texts", "Texts truncated to the model's maximum length.", self._truncated),
            ("cached_vectors", "Vectors returned from the cache.", self._cached),
        ):
            yield name, text, self._counters.total(slot)

    def observe(self, context: RequestContext) -> None:
        """Count a request that succeeded."""
        row = self._row
        row[self._texts] += context.texts
        row[self._tokens] += context.tokens
        row[self._truncated] += context.truncated
        row[self._cached] += context.cached
        self._length.observe(context.tokens)
        self._total.observe(context.total_us / 1e6)
        self._tokenize.observe(context.tokenize_us / 1e6)
        self._queue.observe(context.queue_us / 1e6)
        self._compute.observe(context.compute_us / 1e6)


class Metrics:
    """Counts requests with a response; gauges are read when Prometheus scrapes.

    Metrics of a model have the label `model` if there are several models.
    """

    def __init__(
        self,
        counters: SharedCounters,
        models: Mapping[str, SharedCounters] | None = None,
        engines: Mapping[str, EngineSession] | None = None,
    ) -> None:
        """counters: counters of the server.

        models: the counters of each model, by name. By default there is one model, whose counters
            are the server's.
        engines: those of several devices, by the names of these.
        """
        self._counters, self._row = counters, counters.row
        by_name = models or {"": counters}
        # Before those of paths, as another model is the first one after a change of the models.
        self._models = [ModelMetrics(of_model) for of_model in by_name.values()]
        self._requests: dict[str, int] = {}  # the first slot of each path, which has one per status
        self.track([OTHER])
        several = len(by_name) > 1
        self._label_names = ("model",) if several else ()
        self._label_values: list[Sequence[str]] = [(name,) if several else () for name in by_name]
        self._counted: list[_External] = []
        self._gauges: list[_External] = []
        self._engines = engines or {}

    def track(self, paths: Iterable[str]) -> None:
        """Count the requests of these paths separately; all other paths are counted together."""
        for path in paths:
            self._requests[path] = self._counters.allocate(len(_STATUSES))

    def register_gauge(self, name: str, text: str, reads: Sequence[Callable[[], float]]) -> None:
        """Register a value of each model that is read at every scrape."""
        self._gauges.append(("gauge", name, text, reads))

    def register_counter(self, name: str, text: str, reads: Sequence[Callable[[], float]]) -> None:
        """Register a total of each model that another module counts, read at every scrape."""
        self._counted.append(("counter", name, text, reads))

    def observe(self, context: RequestContext, path: str, status: int) -> None:
        """Count a request with a response, and its texts, tokens and times if it succeeded."""
        first = self._requests.get(path, self._requests[OTHER])
        self._row[first + _OFFSETS[status]] += 1
        if context.texts and status < _BAD_REQUEST:
            self._models[context.model_index].observe(context)

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> "Iterator[Metric]":
        """Yield all metrics, for prometheus_client."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        total = self._counters.total
        requests = CounterMetricFamily(
            "embedwell_requests", "Requests with a response.", labels=("path", "status")
        )
        for (path, first), status in product(self._requests.items(), _STATUSES):
            if count := total(first + _OFFSETS[status]):
                requests.add_metric((path, str(status)), count)
        yield requests
        for totals in zip(*(model.totals() for model in self._models), strict=True):
            name, text, _ = totals[0]
            yield self._family("counter", name, text, [value for *_, value in totals])
        yield from map(self._read, self._counted)
        for histograms in zip(*(model.histograms for model in self._models), strict=True):
            family = histograms[0].family(self._label_names)
            for histogram, labels in zip(histograms, self._label_values, strict=True):
                histogram.add_to(family, labels)
            yield family
        yield from map(self._read, self._gauges)
        if self._engines:
            text = "1 if the engine of the device computes and responds, else 0."
            ready = GaugeMetricFamily("embedwell_engine_ready", text, labels=("device",))
            for device, engine in self._engines.items():
                ready.add_metric((device,), engine.ready)
            yield ready

    def _read(self, external: _External) -> "Metric":
        kind, name, text, reads = external
        return self._family(kind, name, text, [read() for read in reads])

    def _family(self, kind: _Kind, name: str, text: str, values: Sequence[float]) -> "Metric":
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        create: type[CounterMetricFamily | GaugeMetricFamily]
        create = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
        family = create(f"embedwell_{name}", text, labels=self._label_names)
        for labels, value in zip(self._label_values, values, strict=True):
            family.add_metric(labels, value)
        return family


_GAUGES: Sequence[tuple[str, str, Callable[[ServedModel], float]]] = (
    ("queued_tokens", "Tokens admitted and not computed yet.", lambda m: m.admission.queued_tokens),
    (
        "wait_seconds",
        "Expected time to compute the whole queue.",
        lambda m: m.admission.backlog_seconds,
    ),
    (
        "tokens_per_second",
        "Tokens per second of the engine under full load.",
        lambda m: m.engine.rate.latest,
    ),
    (
        "ready",
        "1 if the engine computes and responds, or is unloaded and loads on demand, else 0.",
        lambda m: m.ready_or_idle,
    ),
    ("loaded", "1 if an engine has loaded the model, else 0.", lambda m: m.engine.connected),
    ("engine_restarts", "Restarts of the engine.", lambda m: m.engine.restarts),
)
_COUNTERS: Sequence[tuple[str, str, Callable[[ServedModel], float]]] = (
    (
        "replayed_requests",
        "Jobs computed again because the engine died.",
        lambda m: m.replay.replayed_jobs,
    ),
    (
        "quarantined_inputs",
        "Texts quarantined because they crashed the engine.",
        lambda m: m.replay.quarantined_texts,
    ),
)


def build_metrics(models: Sequence[ServedModel]) -> Metrics:
    """Build the metrics of a server.

    models: all of its models; the counters of the first one count paths.
    """
    counters = {model.name: model.engine.counters for model in models}
    metrics = Metrics(models[0].engine.counters, counters, models[0].engines)
    for name, text, read in _GAUGES:
        metrics.register_gauge(name, text, [partial(read, model) for model in models])
    for name, text, read in _COUNTERS:
        metrics.register_counter(name, text, [partial(read, model) for model in models])
    return metrics
