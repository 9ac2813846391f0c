"""The first process of a server, which starts and supervises all other processes."""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Sequence
from functools import cache, partial

from embedwell.engine.wire.shared_counters import CounterSlot
from embedwell.inherited import InheritedServer
from embedwell.launch.announcements import Announcements
from embedwell.launch.model_engines import ModelEngines
from embedwell.launch.processes import Launch, program
from embedwell.launch.signals import was_signalled
from embedwell.launch.supervisor import ChildSpec, HangLimits, Report, Supervisor

log = logging.getLogger(__name__)

_HTTP_PROCESS = "embedwell.launch.http_process"
"""Imports of an HTTP process, which take most of its start unless they are preloaded."""

_START = 120.0  # seconds until an HTTP process serves
_HEARTBEAT_TIMEOUT = 30.0  # seconds without an iteration of its event loop until it counts as hung
_GRACE = 5.0  # seconds for the error responses to requests that timed out
_FAILED = 1.0  # seconds for HTTP processes to end after a failure


class Watcher:
    """Runs the engine and the HTTP processes until a signal, or until one of them cannot run.

    It holds the listening sockets, which the HTTP processes inherit. So a connection that a process
    has not accepted when it dies waits for its successor.
    """

    def __init__(
        self,
        context: InheritedServer,
        listeners: Sequence[socket.socket],
        engine_fds: Sequence[int],
        launch: Launch = program,
        preload: Callable[[str], None] = lambda _: None,
    ) -> None:
        """engine_fds: for each model, the engine's end of the socket pair for connections.

        preload: imports a module for the processes that are started later.
        """
        self._context, self._listeners, self._launch = context, listeners, launch
        self._preload = cache(preload)
        self._model_counters = [model.counters(model.rows - 1) for model in context.models]
        self._announcements = Announcements(context)
        self._stop, self._serving = asyncio.Event(), asyncio.Event()
        self._engines = ModelEngines(context, engine_fds, launch)
        workers = range(context.settings.workers)
        self._workers = [self._supervise_worker(row) for row in workers]

    async def run(self) -> int:
        """Run to the end; return 0 after a signal, and 1 after a failure."""
        self._install_signal_handlers()
        engines = asyncio.create_task(self._engines.run())
        # An engine loads its model while this process imports what HTTP processes share. They do
        # not wait until this process has imported torch.
        if not self._engines.need_torch:
            await self._engines.wait_spawned()
            self._preload(_HTTP_PROCESS)
        workers = [asyncio.create_task(self._run_worker(row)) for row in range(len(self._workers))]
        stop = asyncio.create_task(self._stop.wait())
        await asyncio.wait([stop, engines, *workers], return_when=asyncio.FIRST_COMPLETED)
        failed = not self._stop.is_set()
        self._stop_workers(failed)
        await asyncio.wait(workers)
        self._engines.stop()
        await asyncio.wait([engines])
        stop.cancel()
        for number in _signals():  # another signal must not interrupt the cleanup
            signal.signal(number, signal.SIG_IGN)
        for task in [engines, *workers]:
            task.result()
        if failed:  # last, after the lines of all other processes
            log.error("the server ends: %s", self._failure())
        return int(failed)

    def _failure(self) -> str:
        """Return on one line why a process that the server needs cannot run."""
        failures = [self._engines.failure, *(worker.failure for worker in self._workers)]
        return " ".join(next(filter(None, failures), "see the lines above").splitlines())

    async def _run_worker(self, row: int) -> None:
        if row:  # an error that stops one process stops all; the first one reports it
            await self._serving.wait()
        await self._workers[row].run()

    def _stop_workers(self, failed: bool) -> None:
        if failed:  # no request can be finished
            self._engines.kill()
        drain = 0.0 if failed else self._context.settings.drain_delay
        for worker in self._workers:
            worker.stop(_FAILED if failed else None)
        self._serving.set()
        # New clients would wait, because no process will accept them.
        for listener in self._listeners:
            asyncio.get_running_loop().call_later(drain, listener.close)

    def _install_signal_handlers(self) -> None:
        loop = asyncio.get_running_loop()
        if was_signalled():
            self._stop.set()
        for number in _signals():
            signal.signal(
                number, lambda number, _: loop.call_soon_threadsafe(self._on_signal, number)
            )

    def _on_signal(self, number: int) -> None:
        if self._stop.is_set() and number == signal.SIGINT:  # a second Ctrl+C
            for worker in self._workers:
                worker.kill()
            self._engines.kill()
        log.info("the server stops after %s", signal.Signals(number).name)
        self._stop.set()

    def _on_report(self, report: Report) -> None:
        match report["event"]:
            case "ready":
                self._announcements.note_serving()
                self._preload(_HTTP_PROCESS)  # for the others, which start now, and for successors
                self._serving.set()
            case "engine_ready":
                self._announcements.note_engine_ready(report)
            case "engine_stalled":
                self._engines.replace_stalled(report["model"], report["restarts"])
            case "engine_wanted":
                self._engines.load(report["model"])
            case "engine_unwanted":
                self._engines.unload(report["model"])

    def _supervise_worker(self, row: int) -> Supervisor:
        context, settings = self._context, self._context.settings
        limits = HangLimits(
            start=_START,
            stop=settings.drain_delay + settings.shutdown_timeout + _GRACE,
            heartbeat_timeout=_HEARTBEAT_TIMEOUT,
            heartbeat=partial(self._model_counters[0].read, CounterSlot.HEARTBEAT, row),
        )
        config = partial(context.worker_config, row)
        spawn = self._launch("embedwell.launch.http_worker", context.pass_fds(row))
        child = ChildSpec("an HTTP process", spawn, config, limits)
        return Supervisor(child, self._on_report, partial(self._clear_gauges, row))

    def _clear_gauges(self, row: int) -> None:
        for counters in self._model_counters:
            counters.clear_gauges(row)


def _signals() -> list[signal.Signals]:
    # SIGHUP is sent when the terminal closes; under nohup it is ignored.
    closing = [signal.SIGHUP] * (signal.getsignal(signal.SIGHUP) != signal.SIG_IGN)
    return [signal.SIGTERM, signal.SIGINT, *closing]
