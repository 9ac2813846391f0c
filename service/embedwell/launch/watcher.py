"""The first process of a server, which starts and supervises all other processes."""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Sequence
from functools import cache, partial

from embedwell.engine.wire.engine_state import CounterSlot
from embedwell.inherited import InheritedServer
from embedwell.launch.announcements import Announcements
from embedwell.launch.model_engines import ModelEngines
from embedwell.launch.processes import Launch
from embedwell.launch.reload import (
    ModelSource,
    ServedState,
    has_terminal,
    next_state,
    read_in_thread,
)
from embedwell.launch.signals import hangup_was_noted, was_signalled
from embedwell.launch.supervisor import ChildSpec, HangLimits, Report, Supervisor

log = logging.getLogger(__name__)

_HTTP_PROCESS = "embedwell.launch.http_process"
"""Imports of an HTTP process, which take most of its start unless they are preloaded."""

_START = 120.0  # seconds until an HTTP process serves
_HEARTBEAT_TIMEOUT = 30.0  # seconds without an iteration of its event loop until it counts as hung
_GRACE = 5.0  # seconds for the error responses to requests that timed out
_READY_TICK = 0.05  # seconds between the checks whether a replaced HTTP process serves
_FAILED = 1.0  # seconds for HTTP processes to end after a failure


class Watcher:
    """Runs the engine and the HTTP processes until a signal, or until one of them cannot run.

    It holds the listening sockets, which the HTTP processes inherit. So a connection that a process
    has not accepted when it dies waits for its successor.
    """

    def __init__(  # noqa: PLR0913 - the last ones by name
        self,
        context: InheritedServer,
        listeners: Sequence[socket.socket],
        engine_fds: Sequence[int],
        *,
        launch: Launch,
        preload: Callable[[str], None],
        source: ModelSource | None,
    ) -> None:
        """engine_fds: for each model, the engine's end of the socket pair for connections.

        preload: imports a module for the processes that are started later.
        source: the models file, which SIGHUP reloads; None without one.
        """
        self._settings, self._listeners, self._launch = context.settings, listeners, launch
        self._preload, self._source = cache(preload), source
        self._stop, self._serving, self._reload = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._ending, self._hangup_ends = False, source is None or has_terminal()
        self._engines = ModelEngines(context, engine_fds, launch)
        self._state = ServedState(context, self._engines.engines, Announcements(context))
        workers = range(context.settings.workers)
        self._workers = [self._supervise_worker(row, self._state) for row in workers]

    async def run(self) -> int:
        """Run to the end; return 0 after a signal, and 1 after a failure."""
        self._install_signal_handlers()
        engines = asyncio.create_task(self._engines.run())
        # An engine loads its model while this process imports what HTTP processes share. A single
        # one imports it alone, which takes less memory. None waits until this one imported torch.
        if self._settings.workers > 1 and not self._engines.need_torch:
            await self._engines.wait_spawned()
            self._preload(_HTTP_PROCESS)
        workers = [asyncio.create_task(self._run_worker(row)) for row in range(len(self._workers))]
        stop = asyncio.create_task(self._stop.wait())
        reload = asyncio.create_task(self._reload_when_asked())
        idle_exit = asyncio.create_task(self._stop_when_unused())
        await asyncio.wait([stop, engines, *workers], return_when=asyncio.FIRST_COMPLETED)
        failed, self._ending = not self._stop.is_set(), True
        reload.cancel()
        idle_exit.cancel()
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

    async def _stop_when_unused(self) -> None:
        if limit := self._settings.idle_exit:
            from embedwell.launch.idle_exit import wait_unused  # which few servers need

            await wait_unused(lambda: self._state, limit)
            log.info("the server ends: no request came for %g s (EMBEDWELL_IDLE_EXIT)", limit)
            self._stop.set()

    def _failure(self) -> str:
        """Return on one line why a process that the server needs cannot run."""
        failures = [self._engines.failure, *(worker.failure for worker in self._workers)]
        return " ".join(next(filter(None, failures), "see the lines above").splitlines())

    async def _run_worker(self, row: int) -> None:
        if row:  # an error that stops one process stops all; the first one reports it
            await self._serving.wait()
        while True:
            worker = self._workers[row]
            await worker.run()
            if self._ending or self._workers[row] is worker:
                return
            self._clear_gauges(row, self._state)

    async def _reload_when_asked(self) -> None:
        while self._source is not None:
            await self._reload.wait()
            self._reload.clear()
            try:
                await self._reload_models(self._source)
            except Exception as error:
                reason = " ".join(str(error).split())
                log.error("the models file was not reloaded, and nothing changes: %s", reason)

    async def _reload_models(self, source: ModelSource) -> None:
        """Serve the models of the file as it is now, without losing a request."""
        models, before = await read_in_thread(source.read), self._state
        self._preload(_HTTP_PROCESS)  # now, so that clients wait less for the successors
        state = next_state(before, models, source, self._engines.create)
        added = [engine for engine in state.engines if engine not in before.engines]
        if failure := await self._engines.add(added):
            raise OSError(failure)
        self._state = state
        for row in range(len(self._workers)):
            await self._replace_worker(row, state)
        await self._engines.remove([each for each in before.engines if each not in state.engines])
        names = ", ".join(model.label for model in state.context.models)
        log.info("the models file was reloaded: %s", names)

    async def _replace_worker(self, row: int, state: ServedState) -> None:
        """Let an HTTP process finish its requests, and start one that serves another state."""
        worker, self._workers[row] = self._workers[row], self._supervise_worker(row, state)
        worker.stop_for_successor()
        while not self._workers[row].ready:
            await asyncio.sleep(_READY_TICK)

    def _stop_workers(self, failed: bool) -> None:
        if failed:  # no request can be finished
            self._engines.kill()
        drain = 0.0 if failed else self._settings.drain_delay
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
        if hangup_was_noted():
            self._reload.set()

    def _on_signal(self, number: int) -> None:
        if number == signal.SIGHUP and not self._hangup_ends:
            self._reload.set()
            return
        if self._stop.is_set() and number == signal.SIGINT:  # a second Ctrl+C
            for worker in self._workers:
                worker.kill()
            self._engines.kill()
        log.info("the server stops after %s", signal.Signals(number).name)
        self._state.announcements.note_stopping()
        self._engines.note_server_stops()
        self._stop.set()

    def _on_report(self, state: ServedState, report: Report) -> None:
        match report["event"]:
            case "ready":
                state.announcements.greet_if_ready()
                if self._settings.workers > 1:
                    self._preload(_HTTP_PROCESS)  # for the others, which start now
                self._serving.set()
            case "engine_ready":
                state.announcements.note_engine_ready(report)
            case "engine_stalled":
                state.engines[report["model"]].replace_stalled(report["restarts"])
            case "engine_wanted":
                self._engines.load(state.engines[report["model"]])
            case "engine_unwanted":
                self._engines.unload(state.engines[report["model"]])

    def _supervise_worker(self, row: int, state: ServedState) -> Supervisor:
        context, settings = state.context, self._settings
        limits = HangLimits(
            start=_START,
            stop=settings.drain_delay + settings.shutdown_timeout + _GRACE,
            heartbeat_timeout=_HEARTBEAT_TIMEOUT,
            heartbeat=partial(state.counters[0].read, CounterSlot.HEARTBEAT, row),
        )
        config = partial(context.worker_config, row)
        spawn = self._launch("embedwell.launch.http_worker", context.pass_fds(row))
        child = ChildSpec("an HTTP process", spawn, config, limits)
        on_restart = partial(self._prepare_restart, row, state)
        return Supervisor(child, partial(self._on_report, state), on_restart)

    def _prepare_restart(self, row: int, state: ServedState) -> None:
        self._preload(_HTTP_PROCESS)  # for all further restarts
        self._clear_gauges(row, state)

    def _clear_gauges(self, row: int, state: ServedState) -> None:
        for counters in state.counters:
            counters.clear_gauges(row)


def _signals() -> list[signal.Signals]:
    # SIGHUP is sent when the terminal closes; under nohup it is ignored.
    closing = [signal.SIGHUP] * (signal.getsignal(signal.SIGHUP) != signal.SIG_IGN)
    return [signal.SIGTERM, signal.SIGINT, *closing]
