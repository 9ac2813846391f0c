"""Metrics of a server, received over OTLP."""

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import COMPILED, Folder
from tests.http_receiver import HttpReceiver
from tests.service.server import Server

CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE


class MetricsReceiver(HttpReceiver):
    """Receives metrics at `url`. resource: attributes of the sender, as texts."""

    def __init__(self) -> None:
        super().__init__(keep_alive=False)
        self.resource: dict[str, str] = {}
        self._latest: Mapping[str, Metric] = {}
        self._came = threading.Condition()

    def post(self, path: str, body: bytes) -> int:
        if path != "/v1/metrics":
            return 404
        [of_resource] = ExportMetricsServiceRequest.FromString(body).resource_metrics
        [of_scope] = of_resource.scope_metrics
        with self._came:
            self.resource = {
                pair.key: pair.value.string_value for pair in of_resource.resource.attributes
            }
            self._latest = {metric.name: metric for metric in of_scope.metrics}
            self._came.notify_all()
        return 200

    def wait_for_texts(self, count: int) -> Mapping[str, Metric]:
        """Return the metrics once so many texts are counted."""

        def counted() -> bool:
            points = self._latest.get("embedwell_texts", Metric()).sum.data_points
            return bool(sum(point.as_double for point in points) == count)

        with self._came:
            assert self._came.wait_for(counted, 120), self._latest
            return self._latest


@pytest.fixture(scope="module")
def receiver() -> Iterator[MetricsReceiver]:
    with MetricsReceiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def server(
    receiver: MetricsReceiver, tiny_bert: Folder, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        environment.setenv("OTEL_METRIC_EXPORT_INTERVAL", "50")
        environment.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
        log: Path = tmp_path_factory.mktemp("otlp") / "log"
        with Server(log, model=tiny_bert(**COMPILED), workers=2, otlp_metrics=True) as server:
            yield server


def test_the_metrics_of_all_processes_are_sent_once(
    server: Server, receiver: MetricsReceiver
) -> None:
    for _ in range(4):  # whichever process answers
        assert server.post("/embed", {"inputs": ["a text", "another"]}).status_code == 200
    sent = receiver.wait_for_texts(8)
    assert receiver.resource["service.name"] == "embedwell"
    assert receiver.resource["deployment.environment.name"] == "test"
    scraped: dict[str, Any] = {
        family.name: family
        for family in text_string_to_metric_families(server.client.get("/metrics").text)
    }
    assert sent.keys() == scraped.keys()
    for name, metric in sent.items():
        assert metric.description == scraped[name].documentation
        assert metric.WhichOneof("data") == {"counter": "sum"}.get(
            scraped[name].type, scraped[name].type
        )
        assert metric.unit == ("s" if name.endswith("_seconds") else "")


def test_values_are_those_of_prometheus(server: Server, receiver: MetricsReceiver) -> None:
    sent = receiver.wait_for_texts(8)
    [tokens] = sent["embedwell_tokens"].sum.data_points
    assert sent["embedwell_tokens"].sum.is_monotonic and tokens.as_double > 8
    assert 0 < tokens.start_time_unix_nano < tokens.time_unix_nano
    assert sent["embedwell_tokens"].sum.aggregation_temporality == CUMULATIVE
    [ready] = sent["embedwell_ready"].gauge.data_points
    assert ready.as_double == 1
    paths = [
        {pair.key: pair.value.string_value for pair in point.attributes}
        for point in sent["embedwell_requests"].sum.data_points
    ]
    assert {"path": "/embed", "status": "200"} in paths
    [lengths] = sent["embedwell_request_tokens"].histogram.data_points
    assert lengths.count == sum(lengths.bucket_counts) == 4
    assert lengths.sum == tokens.as_double
    assert not lengths.HasField("min") and not lengths.HasField("max")
    assert len(lengths.bucket_counts) == len(lengths.explicit_bounds) + 1
    families = text_string_to_metric_families(server.client.get("/metrics").text)
    [family] = [each for each in families if each.name == "embedwell_request_tokens"]
    buckets = [each for each in family.samples if each.name.endswith("_bucket")]
    assert [float(each.labels["le"]) for each in buckets[:-1]] == [*lengths.explicit_bounds]
    running = [sum(lengths.bucket_counts[: index + 1]) for index in range(len(buckets))]
    assert [each.value for each in buckets] == running
