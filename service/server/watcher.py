"""The first process of a server, which starts all others, watches them, and does nothing else."""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import click

from service import __version__
from service.context import ServerContext
from service.process.reports import Report
from service.process.shared_counters import Slot
from service.process.supervisor import Child, Supervisor
from service.process.watchdog import Limits
from service.server.engine_supervisor import EngineSupervisor

log = logging.getLogger(__name__)

_START = 120.0  # seconds that an HTTP process may take until it serves
_SILENCE = 30.0  # seconds after which an event loop that does not turn is taken to hang
_GRACE = 5.0  # seconds for a process that has given up its requests to say so to their clients
_FAILED = 1.0  # seconds for HTTP processes to end where the server has failed


class Watcher:
    """Runs the engine and the HTTP processes until a signal, or until one of them gives up.

    It holds the listening sockets, which the HTTP processes inherit: a connection that one of them
    has not accepted waits for the process that takes its place.
    """

    def __init__(
        self, context: ServerContext, listeners: Sequence[socket.socket], engine_fd: int
    ) -> None:
        """engine_fd: a descriptor for the engine, where it gives connections to itself."""
        self._context, self._listeners = context, listeners
        self._counters = context.counters(context.rows - 1)
        self._greeted = -1  # the restarts of the engine that was told to be ready last
        self._stop, self._serving = asyncio.Event(), asyncio.Event()
        self._engine = EngineSupervisor(context, engine_fd)
        workers = range(context.settings.workers)
        self._workers = [self._supervise_worker(row) for row in workers]

    async def run(self) -> int:
        """Watch until the end: 0 where that was asked for, else 1."""
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
        for number in _signals():  # or one more would interrupt the end of this program
            signal.signal(number, signal.SIG_IGN)
        for task in [engine, *workers]:
            task.result()
        return int(failed)

    async def _run_worker(self, row: int) -> None:
        if row:  # what hinders one hinders all, and need not be told by each
            await self._serving.wait()
        await self._workers[row].run()

    def _stop_workers(self, failed: bool) -> None:
        if failed:  # then there is nothing to finish
            self._engine.stop()
            self._engine.kill()
        drain = 0.0 if failed else self._context.settings.drain_delay
        for worker in self._workers:
            worker.stop(_FAILED if failed else None)
        self._serving.set()
        # Else who comes now would wait for a process to accept, and none will.
        for listener in self._listeners:
            asyncio.get_running_loop().call_later(drain, listener.close)

    def _install_signal_handlers(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _signals():
            signal.signal(
                number, lambda number, _: loop.call_soon_threadsafe(self._on_signal, number)
            )

    def _on_signal(self, number: int) -> None:
        if self._stop.is_set() and number == signal.SIGINT:  # asked for twice, as by Ctrl+C
            for process in (*self._workers, self._engine):
                process.kill()
        self._stop.set()

    def _on_report(self, report: Report) -> None:
        if report["event"] == "ready":
            self._serving.set()
        elif report["event"] == "engine_ready" and report["restarts"] > self._greeted:
            self._greeted = report["restarts"]
            with contextlib.suppress(OSError):  # nobody has to read it
                click.echo(greeting(self._context, report["engine"]), err=True)
        elif report["event"] == "engine_stalled":
            self._engine.replace_stalled(report["restarts"])

    def _supervise_worker(self, row: int) -> Supervisor:
        context, settings = self._context, self._context.settings
        limits = Limits(
            start=_START,
            stop=settings.drain_delay + settings.shutdown_timeout + _GRACE,
            silence=_SILENCE,
            heartbeat=partial(self._counters.read, Slot.HEARTBEAT, row),
        )
        pass_fds = [*context.listener_fds[row], context.counters_fd, context.handoff_fd]
        config = partial(context.worker_config, row)
        child = Child("an HTTP process", "service.server.http_worker", config, pass_fds, limits)
        return Supervisor(child, self._on_report, partial(self._counters.clear_gauges, row))


def greeting(context: ServerContext, engine: Mapping[str, Any]) -> str:
    """Where the server listens, what it serves, and a line to try."""
    settings = context.settings
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"http://{host}:{context.port}{settings.root_path}"
    key = "" if settings.api_key is None else " -H 'authorization: Bearer KEY'"
    return (
        f"\nembedding-service {__version__} listens on {url}  (API: {url}/docs)\n"
        f"model {settings.name}: {engine['dim']} dimensions, {engine['max_length']} tokens, "
        f"on {engine['device']} in {engine['dtype']}, {engine['threads']} threads, "
        f"{_kernels(engine)}\n"
        f'try: curl -s {url}/embed{key} -d \'{{"inputs": "Hello, world"}}\'\n'
    )


def _kernels(engine: Mapping[str, Any]) -> str:
    if engine["kernels"] is not None:
        return f"{engine['kernels']} kernels"
    return "torch alone" if engine["device"] == "cpu" else "torch"


def _signals() -> list[signal.Signals]:
    # A terminal that closes, unless nohup has said that this is nothing to stop for.
    closing = [signal.SIGHUP] * (signal.getsignal(signal.SIGHUP) != signal.SIG_IGN)
    return [signal.SIGTERM, signal.SIGINT, *closing]
