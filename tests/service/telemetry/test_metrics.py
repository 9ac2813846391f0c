"""Metrics, compared with the classes of prometheus_client."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Histogram as ReferenceHistogram
from prometheus_client.core import Metric

from embedwell.engine.wire.engine_state import SharedCounters, counters_file
from embedwell.http.request_context import RequestContext
from embedwell.telemetry.metrics import Histogram, Metrics

BOUNDS = (0.001, 0.5, 1.0)


class Collected:
    """Gives prometheus_client one metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> list[Metric]:
        return [self._metric]


def test_a_histogram_equals_that_of_prometheus_client() -> None:
    registry, our_registry = CollectorRegistry(), CollectorRegistry()
    reference = ReferenceHistogram("embedwell_x", "Some text.", buckets=BOUNDS, registry=registry)
    histogram = Histogram(SharedCounters.private(), "x", "Some text.", BOUNDS)
    for value in (0, 0.001, 0.0011, 0.5, 0.75, 1.0, 7):
        reference.observe(value)
        histogram.observe(value)
    family = histogram.family()
    histogram.add_to(family)
    our_registry.register(Collected(family))
    expected = [line for line in generate_latest(registry).splitlines() if b"_created" not in line]
    assert generate_latest(our_registry).splitlines() == expected


def test_a_request_without_texts_is_counted_without_its_times() -> None:
    metrics = Metrics(SharedCounters.private())
    metrics.track(["/live"])
    metrics.observe(RequestContext("a"), "/live", 200)
    text = metrics.render().decode()
    assert 'embedwell_requests_total{path="/live",status="200"} 1.0' in text
    assert "embedwell_request_seconds_count 0.0" in text


def test_texts_of_a_failed_request_are_not_counted() -> None:
    metrics = Metrics(SharedCounters.private())
    metrics.track(["/embed"])
    for status in (413, 429, 504):
        metrics.observe(RequestContext("a", texts=2, tokens=7), "/embed", status)
    text = metrics.render().decode()
    assert 'embedwell_requests_total{path="/embed",status="429"} 1.0' in text
    for name in ("texts_total", "tokens_total", "queue_seconds_count", "request_seconds_count"):
        assert f"embedwell_{name} 0.0" in text


def test_all_processes_report_the_same_sums() -> None:
    with counters_file(2) as file:
        processes = [Metrics(SharedCounters.attach(file, 2, row)) for row in (0, 1)]
    for metrics in processes:
        metrics.track(["/embed", "/live"])
    context = RequestContext("a", texts=2, tokens=7)
    processes[0].observe(context, "/embed", 200)
    processes[1].observe(context, "/embed", 200)
    processes[1].observe(RequestContext("b"), "/live", 200)
    assert processes[0].render() == processes[1].render()
    text = processes[0].render().decode()
    assert 'embedwell_requests_total{path="/embed",status="200"} 2.0' in text
    assert 'embedwell_requests_total{path="/live",status="200"} 1.0' in text
    assert "embedwell_tokens_total 14.0" in text and "embedwell_request_tokens_count 2.0" in text


def test_numbers_of_several_models_have_its_label() -> None:
    counters = {name: SharedCounters.private() for name in ("a", "b")}
    metrics = Metrics(counters["a"], counters)
    metrics.track(["/embed"])
    metrics.register_gauge("ready", "Whether.", [lambda: 1.0, lambda: 0.0])
    metrics.observe(RequestContext("x", model_index=1, texts=2, tokens=7), "/embed", 200)
    text = metrics.render().decode()
    assert 'embedwell_requests_total{path="/embed",status="200"} 1.0' in text
    for line in (
        'texts_total{model="a"} 0.0',
        'texts_total{model="b"} 2.0',
        'ready{model="a"} 1.0',
        'ready{model="b"} 0.0',
        'request_tokens_bucket{le="4.0",model="b"} 0.0',
        'request_tokens_bucket{le="16.0",model="b"} 1.0',
        'request_tokens_sum{model="a"} 0.0',
    ):
        assert f"embedwell_{line}\n" in text


def test_a_model_keeps_its_numbers_when_another_one_is_the_first() -> None:
    with counters_file(1) as a, counters_file(1) as b:
        files = {"a": a, "b": b}
        for names in (("a", "b"), ("b", "a"), ("a", "b")):
            counters = {name: SharedCounters.attach(files[name], 1, 0) for name in names}
            metrics = Metrics(counters[names[0]], counters)
            metrics.track(["/embed"])
            index = names.index("b")
            context = RequestContext("x", model_index=index, texts=2, tokens=7)
            metrics.observe(context, "/embed", 200)
        text = metrics.render().decode()
    for line in (
        'requests_total{path="/embed",status="200"} 2.0',
        'texts_total{model="a"} 0.0',
        'texts_total{model="b"} 6.0',
        'request_tokens_count{model="b"} 3.0',
    ):
        assert f"embedwell_{line}\n" in text
    assert text.count("embedwell_requests_total{") == 1
