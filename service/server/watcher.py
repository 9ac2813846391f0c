"""The first process of a server: it starts and watches all others, and does nothing else."""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import click

from models.output_names import DENSE, SPARSE
from service import __version__
from service.context import ServerContext
from service.process.reports import Report
from service.process.shared_counters import Slot
from service.process.supervisor import Child, Supervisor
from service.process.watchdog import Limits
from service.server.engine_supervisor import EngineSupervisor

log = logging.getLogger(__name__)

_START = 120.0  # seconds until an HTTP process serves
_HEARTBEAT_TIMEOUT = 30.0  # seconds without a turn of the event loop after which it hangs
_GRACE = 5.0  # seconds for the error responses to requests that were given up
_FAILED = 1.0  # seconds for HTTP processes to end after a failure


class Watcher:
    """Runs the engine and the HTTP processes until a signal, or until one of them cannot run.

    It holds the listening sockets, which the HTTP processes inherit: a connection that a process
    has not accepted when it dies waits for its successor.
    """

    def __init__(
        self, context: ServerContext, listeners: Sequence[socket.socket], engine_fd: int
    ) -> None:
        """engine_fd: the engine's end of the socket pair that hands over connections."""
        self._context, self._listeners = context, listeners
        self._counters = context.counters(context.rows - 1)
        self._announced = -1  # the restart count of the latest engine that was logged
        self._stop, self._serving = asyncio.Event(), asyncio.Event()
        self._engine = EngineSupervisor(context, engine_fd)
        workers = range(context.settings.workers)
        self._workers = [self._supervise_worker(row) for row in workers]

    async def run(self) -> int:
        """Run to the end; return 0 after a signal, and 1 after a failure."""
        self._install_signal_handlers()
        engine = asyncio.create_task(self._engine.run())
        workers = [asyncio.create_task(self._run_worker(row)) for row in range(len(self._workers))]
        stop = asyncio.create_task(self._stop.wait())
        await asyncio.wait([stop, engine, *workers], return_when=asyncio.FIRST_COMPLETED)
        failed = not self._stop.is_set()
        self._stop_workers(failed)
        await asyncio.wait(workers)
        self._engine.stop()
        await asyncio.wait([engine])
        stop.cancel()
        for number in _signals():  # another must not interrupt the cleanup
            signal.signal(number, signal.SIG_IGN)
        for task in [engine, *workers]:
            task.result()
        return int(failed)

    async def _run_worker(self, row: int) -> None:
        if row:  # an error that stops one stops all: the first reports it
            await self._serving.wait()
        await self._workers[row].run()

    def _stop_workers(self, failed: bool) -> None:
        if failed:  # no request can be finished
            self._engine.stop()
            self._engine.kill()
        drain = 0.0 if failed else self._context.settings.drain_delay
        for worker in self._workers:
            worker.stop(_FAILED if failed else None)
        self._serving.set()
        # New clients would wait for a process to accept them, and none will.
        for listener in self._listeners:
            asyncio.get_running_loop().call_later(drain, listener.close)

    def _install_signal_handlers(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _signals():
            signal.signal(
                number, lambda number, _: loop.call_soon_threadsafe(self._on_signal, number)
            )

    def _on_signal(self, number: int) -> None:
        if self._stop.is_set() and number == signal.SIGINT:  # a second Ctrl+C
            for process in (*self._workers, self._engine):
                process.kill()
        self._stop.set()

    def _on_report(self, report: Report) -> None:
        if report["event"] == "ready":
            self._serving.set()
        elif report["event"] == "engine_ready" and report["restarts"] > self._announced:
            first, self._announced = self._announced < 0, report["restarts"]
            if first:
                with contextlib.suppress(OSError):  # standard error may be closed
                    click.echo(greeting(self._context, report["engine"]), err=True)
            else:
                log.warning("engine replaced (restart %d)", report["restarts"])
        elif report["event"] == "engine_stalled":
            self._engine.replace_stalled(report["restarts"])

    def _supervise_worker(self, row: int) -> Supervisor:
        context, settings = self._context, self._context.settings
        limits = Limits(
            start=_START,
            stop=settings.drain_delay + settings.shutdown_timeout + _GRACE,
            heartbeat_timeout=_HEARTBEAT_TIMEOUT,
            heartbeat=partial(self._counters.read, Slot.HEARTBEAT, row),
        )
        pass_fds = [*context.listener_fds[row], context.counters_fd, context.handoff_fd]
        config = partial(context.worker_config, row)
        child = Child("an HTTP process", "service.server.http_worker", config, pass_fds, limits)
        return Supervisor(child, self._on_report, partial(self._counters.clear_gauges, row))


def greeting(context: ServerContext, engine: Mapping[str, Any]) -> str:
    """The address of the server, its model, and an example request."""
    settings = context.settings
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"http://{host}:{context.port}{settings.root_path}"
    playground = f"playground: {url}/playground   " if settings.playground else ""
    route, body = _example_request(engine)
    key = "" if settings.api_key is None else " -H 'authorization: Bearer KEY'"
    return (
        f"\nembedding-service {__version__} listens on {url}\n"
        f"{playground}API: {url}/docs\n"
        f"model {settings.name}: {_outputs(engine)}, {engine['max_length']} tokens, "
        f"on {engine['device']} in {engine['dtype']}, {engine['threads']} threads, "
        f"{_kernels(engine)}\n"
        f"try: curl -s {url}{route}{key} -d '{body}'\n"
    )


def _outputs(engine: Mapping[str, Any]) -> str:
    if (labels := engine["labels"]) is None:
        sparse = " and sparse vectors" if SPARSE in engine["outputs"] else ""
        dense = f"{engine['dim']} dimensions" if DENSE in engine["outputs"] else ""
        return dense + sparse if dense else f"sparse vectors of {engine['vocab_size']} entries"
    return "reranker" if len(labels) == 1 else f"{len(labels)} labels"


def _example_request(engine: Mapping[str, Any]) -> tuple[str, str]:
    if (labels := engine["labels"]) is None:
        route = "/embed" if DENSE in engine["outputs"] else "/embed_sparse"
        return route, '{"inputs": "Hello, world"}'
    if len(labels) > 1:
        return "/predict", '{"inputs": "Hello, world"}'
    return "/rerank", '{"query": "What is rust?", "texts": ["A fungus.", "Iron oxide."]}'


def _kernels(engine: Mapping[str, Any]) -> str:
    if engine["kernels"] is not None:
        return f"{engine['kernels']} kernels"
    return "torch alone" if engine["device"] == "cpu" else "torch"


def _signals() -> list[signal.Signals]:
    # SIGHUP comes when the terminal closes; nohup has it ignored.
    closing = [signal.SIGHUP] * (signal.getsignal(signal.SIGHUP) != signal.SIG_IGN)
    return [signal.SIGTERM, signal.SIGINT, *closing]
