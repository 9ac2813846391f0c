"""A receiver of traces over OTLP/HTTP, in a thread of the test process."""

import time
from collections.abc import Callable
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.http_receiver import HttpReceiver


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
        deadline = time.monotonic() + 30
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
