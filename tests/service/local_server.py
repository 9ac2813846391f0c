"""The application and an engine as threads of the test process, with real sockets."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from embedwell.app import create_app, with_cors_headers
from embedwell.compute.engine_session import EngineSession
from embedwell.engine.wire.engine_state import EngineProgress, SharedCounters
from embedwell.engine.wire.spec import EngineSpec
from embedwell.engine.worker.batch_sizing import BatchSizing
from embedwell.engine.worker.loop import Loop
from embedwell.engine.worker.main import describe, load_and_measure
from embedwell.engine.worker.receiver import Connections
from embedwell.http.protocol.server import uvicorn_config
from embedwell.inherited import InheritedModel, InheritedServer
from embedwell.launch.bootstrap import open_exclusive, open_model_contexts
from embedwell.settings.settings import Settings
from tests.service.server import MAX_ISA, HttpServer

_DEFAULTS: dict[str, Any] = {
    "dtype": "float32",
    "isa": MAX_ISA,
    "max_wait": 60,
    "max_batch_tokens": 2048,
}


@contextmanager
def local_server(model: Path, **settings: Any) -> Iterator[HttpServer]:
    """Serve the model of a folder, in float32, for as long as the block takes."""
    all_settings = Settings(**{**_DEFAULTS, **settings})
    with ExitStack() as stack:
        listeners = [stack.enter_context(listener) for listener in open_exclusive("127.0.0.1", 0)]
        contexts, engine_fds = open_model_contexts(all_settings, [(all_settings, model)], stack)
        context = InheritedServer(
            all_settings, contexts, port=listeners[0].getsockname()[1], listener_fds=[]
        )
        stack.enter_context(_engine(contexts[0], engine_fds[0]))
        stack.enter_context(_http(context, listeners))
        server = HttpServer()
        server.url = f"http://127.0.0.1:{context.port}"
        server.client = server.new_client()
        with closing(server.client):
            while server.client.get("/ready").status_code != 200:
                time.sleep(0.01)
            yield server


@contextmanager
def _engine(context: InheritedModel, handoff: int) -> Iterator[None]:
    """Run an engine in a thread, which closing a pipe stops."""
    spec = EngineSpec(
        folder=str(context.folder),
        options=context.settings.options,
        accept_fd=handoff,
        counters_fd=context.counters_fd,
        counters_rows=context.rows,
    )
    embedder, choices = load_and_measure(spec)
    reader, writer = os.pipe()
    greeting = ["description", describe(embedder, choices)], b""
    handoff_socket = socket.socket(fileno=os.dup(handoff))
    connections = Connections(handoff_socket, reader, greeting)
    sizing = BatchSizing(
        choices.max_batch_tokens, embedder.max_concurrent_batches, embedder.prefetch_depth
    )
    counters = SharedCounters.attach(spec.counters_fd, spec.counters_rows, spec.counters_rows - 1)
    progress = EngineProgress(counters, os.getpid())
    loop = Loop(connections, embedder, sizing, choices.rate, progress=progress)
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        yield
    finally:
        os.close(writer)
        thread.join()
        connections.close()
        handoff_socket.close()
        os.close(reader)


@contextmanager
def _http(context: InheritedServer, listeners: list[socket.socket]) -> Iterator[None]:
    """Run the application under uvicorn in a thread."""
    engine = EngineSession(context.models[0].connect_engine, context.counters(0))
    app = create_app(context, [engine], [engine.run])
    server = uvicorn.Server(uvicorn_config(context.settings, app, with_cors_headers(app, context)))
    thread = threading.Thread(target=server.run, args=[listeners])
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
