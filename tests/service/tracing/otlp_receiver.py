"""A receiver of traces over OTLP/HTTP, in a thread of the test process."""

import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class OtlpReceiver:
    """Receives spans at `url` for the time of a `with` block.

    spans: in the order in which they came. resource: attributes of the latest sender.
    """

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.resource: dict[str, Any] = {}
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.path == "/v1/traces":
                    receiver._receive(ExportTraceServiceRequest.FromString(body))
                self.send_response(200 if self.path == "/v1/traces" else 404)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

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
