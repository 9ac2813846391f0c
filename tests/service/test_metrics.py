"""The numbers of the metrics are those that Prometheus' own classes would count."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Histogram as Theirs

from service.call import Call
from service.metrics import Histogram, Metrics

BOUNDS = (0.001, 0.5, 1.0)


def test_a_histogram_counts_as_prometheus_does() -> None:
    registry, mine = CollectorRegistry(), CollectorRegistry()
    theirs = Theirs("embedding_x", "Some text.", buckets=BOUNDS, registry=registry)
    ours = Histogram("x", "Some text.", BOUNDS)
    mine.register(ours)
    for value in (0, 0.001, 0.0011, 0.5, 0.75, 1.0, 7):
        theirs.observe(value)
        ours.observe(value)
    expected = [line for line in generate_latest(registry).splitlines() if b"_created" not in line]
    assert generate_latest(mine).splitlines() == expected


def test_a_request_without_texts_is_counted_and_its_times_are_not() -> None:
    metrics = Metrics()
    metrics.observe(Call("a"), "/live", 200)
    text = metrics.text().decode()
    assert 'embedding_requests_total{path="/live",status="200"} 1.0' in text
    assert "embedding_request_seconds_count 0.0" in text
