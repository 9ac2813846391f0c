"""Traces of requests, received over OTLP."""

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.conftest import COMPILED, Folder
from tests.gateways import free_port
from tests.http_receiver import HttpReceiver
from tests.service.local_server import local_server
from tests.service.server import HttpServer, Server


class OtlpReceiver(HttpReceiver):
    """Receives spans at `url`.

    spans: in the order in which they came. resource: attributes of the latest sender.
    """

    def __init__(self) -> None:
        super().__init__(keep_alive=False)
        self.spans: list[Span] = []
        self.resource: dict[str, Any] = {}

    def post(self, path: str, body: bytes) -> int:
        if path != "/v1/traces":
            return 404
        self._receive(ExportTraceServiceRequest.FromString(body))
        return 200

    def wait_for(self, condition: Callable[[Span], bool]) -> Span:
        """The first span of which the condition holds; fails if none comes."""
        deadline = time.monotonic() + 120
        while True:
            for span in [*self.spans]:
                if condition(span):
                    return span
            assert time.monotonic() < deadline, self.spans
            time.sleep(0.01)

    def children(self, parent: Span) -> dict[str, Span]:
        """The spans in a span, by name."""
        return {span.name: span for span in self.spans if span.parent_span_id == parent.span_id}

    def _receive(self, request: ExportTraceServiceRequest) -> None:
        for of_resource in request.resource_spans:
            self.resource = attributes(of_resource.resource.attributes)
            for of_scope in of_resource.scope_spans:
                self.spans += of_scope.spans


def attributes(pairs: Any) -> dict[str, Any]:
    """Attributes by name."""
    values: dict[str, Any] = {}
    pair: KeyValue
    for pair in pairs:
        kind = pair.value.WhichOneof("value")
        assert kind is not None
        values[pair.key] = getattr(pair.value, kind)
    return values


TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PROBES = ["live", "ready", "health", "ping", "metrics"]
STAGES = ["tokenize", "queue", "compute"]


@pytest.fixture(scope="module")
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def server(receiver: OtlpReceiver, tiny_bert: Folder) -> Iterator[HttpServer]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
        environment.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
        options = {"tracing": True, "cors_origins": "*", "root_path": "/under"}
        with local_server(tiny_bert(**COMPILED), served_name="small", **options) as server:
            yield server


def of_request(receiver: OtlpReceiver, request_id: str) -> Span:
    """The span of the request with this id."""
    return receiver.wait_for(
        lambda span: attributes(span.attributes).get("embedwell.request_id") == request_id
    )


def test_a_request_has_a_span_with_the_conventional_attributes(
    server: HttpServer, receiver: OtlpReceiver
) -> None:
    body = {"input": ["a", "b c"], "model": "small"}
    headers = {"x-request-id": "usual"}
    tokens = server.post("/v1/embeddings", body, **headers).json()["usage"]["total_tokens"]
    span = of_request(receiver, "usual")
    assert (span.name, span.kind) == ("POST /v1/embeddings", Span.SPAN_KIND_SERVER)
    assert attributes(span.attributes) == {
        "http.request.method": "POST",
        "http.route": "/v1/embeddings",
        "http.response.status_code": 200,
        "url.path": "/under/v1/embeddings",
        "url.scheme": "http",
        "gen_ai.operation.name": "embeddings",
        "gen_ai.provider.name": "embedwell",
        "gen_ai.request.model": "small",
        "gen_ai.usage.input_tokens": tokens,
        "embedwell.request_id": "usual",
        "embedwell.texts": 2,
        "embedwell.truncated_texts": 0,
        "embedwell.cached_vectors": 0,
    }
    assert receiver.resource["service.name"] == "embedwell"
    assert receiver.resource["deployment.environment.name"] == "test"


def test_a_ranking_is_another_operation(server: HttpServer, receiver: OtlpReceiver) -> None:
    body = {"query": "a", "texts": ["b", "c"]}
    assert server.post("/v1/rerank", body, **{"x-request-id": "ranking"}).is_success
    span = of_request(receiver, "ranking")
    assert attributes(span.attributes)["gen_ai.operation.name"] == "rerank"


def test_the_stages_follow_one_another_within_the_request(
    server: HttpServer, receiver: OtlpReceiver
) -> None:
    body = {"inputs": ["many words " * 50] * 64}
    response = server.post("/embed", body, **{"x-request-id": "big"})
    span = of_request(receiver, "big")
    receiver.wait_for(lambda other: other.name == "compute" and other.trace_id == span.trace_id)
    children = receiver.children(span)
    assert list(children) == STAGES
    times = [(stage.start_time_unix_nano, stage.end_time_unix_nano) for stage in children.values()]
    assert [start for start, _ in times[1:]] == [end for _, end in times[:-1]]
    assert span.start_time_unix_nano <= times[0][0] and times[-1][1] <= span.end_time_unix_nano
    durations = [(end - start) // 1000 for start, end in times]
    assert durations == [int(response.headers[f"x-{stage}-us"]) for stage in STAGES]


def test_the_time_in_which_a_body_comes_is_before_the_first_stage(
    server: HttpServer, receiver: OtlpReceiver
) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=120) as client:
        lines = ["POST /embed HTTP/1.1", "host: localhost", "content-length: 15"]
        lines += ["x-request-id: slow", "expect: 100-continue", "", ""]
        client.sendall("\r\n".join(lines).encode())
        assert client.recv(1000).startswith(b"HTTP/1.1 100")  # the request has begun
        time.sleep(0.1)
        client.sendall(b'{"inputs": "a"}')
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
    span = of_request(receiver, "slow")
    first = receiver.wait_for(lambda other: other.parent_span_id == span.span_id)
    assert first.name == "tokenize"
    assert first.start_time_unix_nano > span.start_time_unix_nano + 90_000_000


def test_a_trace_of_the_client_is_continued(server: HttpServer, receiver: OtlpReceiver) -> None:
    traced = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1"}
    server.post("/embed", {"inputs": "a"}, **traced)
    span = of_request(receiver, TRACE)
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert span.trace_state == "vendor=1"
    compute = receiver.wait_for(lambda other: other.parent_span_id == span.span_id)
    assert compute.trace_id.hex() == TRACE


def test_a_trace_that_its_sender_does_not_sample_is_not_sent(
    server: HttpServer, receiver: OtlpReceiver
) -> None:
    unsampled = {"traceparent": f"00-{TRACE[::-1]}-{PARENT}-00"}
    server.post("/embed", {"inputs": "a"}, **unsampled)
    server.post("/embed", {"inputs": "a"}, **{"x-request-id": "after-it"})
    of_request(receiver, "after-it")
    assert not [span for span in receiver.spans if span.trace_id.hex() == TRACE[::-1]]


def test_a_refused_request_has_its_status_and_no_model(
    server: HttpServer, receiver: OtlpReceiver
) -> None:
    server.post("/embed", {"inputs": 1}, **{"x-request-id": "refused"})
    server.client.get("/nowhere", headers={"x-request-id": "lost"})
    refused, lost = of_request(receiver, "refused"), of_request(receiver, "lost")
    assert attributes(refused.attributes)["http.response.status_code"] == 400
    assert "gen_ai.request.model" not in attributes(refused.attributes)
    assert refused.status.code == Status.STATUS_CODE_UNSET  # the client's fault
    assert (lost.name, attributes(lost.attributes)["http.response.status_code"]) == ("GET", 404)


def test_probes_and_scrapes_have_no_spans(server: HttpServer, receiver: OtlpReceiver) -> None:
    for path in PROBES:
        server.client.get(f"/{path}")
        server.client.get(f"/under/{path}")
    server.client.get("/info", headers={"x-request-id": "last"})
    of_request(receiver, "last")
    paths = [attributes(span.attributes).get("url.path", "") for span in receiver.spans]
    assert not [path for path in paths if path.rpartition("/")[2] in PROBES]


def test_a_request_from_a_page_of_another_origin_is_traced(
    server: HttpServer, receiver: OtlpReceiver
) -> None:
    origin = {"origin": "https://page.example", "access-control-request-method": "POST"}
    assert server.client.options("/embed", headers=origin).status_code == 200
    server.post("/embed", {"inputs": "a"}, **origin, **{"x-request-id": "from-a-page"})
    assert of_request(receiver, "from-a-page")


def test_a_failure_of_the_server_is_an_error_of_the_span(
    receiver: OtlpReceiver, tiny_bert: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{receiver.url}/v1/traces")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "search")
    with local_server(tiny_bert(**COMPILED), tracing=True, request_timeout=1e-6) as server:
        server.post("/embed", {"inputs": "a"}, **{"x-request-id": "late"})
    span = of_request(receiver, "late")  # sent when the server stopped
    assert span.status.code == Status.STATUS_CODE_ERROR
    assert attributes(span.attributes)["error.type"] == "504"
    assert receiver.resource["service.name"] == "search"


def test_a_server_sends_its_last_spans_when_it_stops(
    receiver: OtlpReceiver, tiny_bert: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "1000000")
    with Server(tmp_path / "log", model=tiny_bert(**COMPILED), tracing=True) as server:
        server.post("/embed", {"inputs": "a"}, **{"x-request-id": "before-the-end"})
        assert server.stop() == 0
    assert of_request(receiver, "before-the-end")


def test_a_receiver_that_is_away_delays_neither_requests_nor_the_end(
    tiny_bert: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "100000")
    options: dict[str, Any] = {"tracing": True, "shutdown_timeout": 1}
    with Server(tmp_path / "log", model=tiny_bert(**COMPILED), **options) as server:
        assert server.post("/embed", {"inputs": "a"}).status_code == 200
        server.wait_until(lambda: "exporting spans batch" in server.log)
        assert server.post("/embed", {"inputs": "a"}).status_code == 200
        assert server.stop() == 0
    assert "has not finished" not in server.log  # else the watcher would have killed it


def test_without_traces_neither_the_sdk_nor_an_exporter_is_loaded() -> None:
    # FastAPI itself imports opentelemetry-api.
    program = (
        "import sys, embedwell.asgi, embedwell.launch.http_process\n"
        "names = {'embedwell_otel', 'opentelemetry.sdk', 'opentelemetry.exporter'}\n"
        "assert not names & {*sys.modules}"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
