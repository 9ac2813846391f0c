"""Keep the engine running, and replace it when it hangs."""

import contextlib
import logging
import os
import signal
from collections.abc import Callable
from dataclasses import replace

import orjson

from embedwell.context import ModelContext
from embedwell.engine.protocol.spec import EngineSpec, StartupChoices
from embedwell.process.reports import Report
from embedwell.process.shared_counters import Slot
from embedwell.process.supervisor import ChildSpec, Process, Supervisor
from embedwell.process.watchdog import HangLimits
from embedwell.server.fork_server_supervisor import ForkServerSupervisor

log = logging.getLogger(__name__)


class EngineSupervisor(Supervisor):
    """Runs the launcher of the engine, which gets the choices of the previous engine.

    The choices are its device, its precision, and its batch size.
    """

    def __init__(  # noqa: PLR0913 - the last ones by name
        self,
        model: ModelContext,
        engine_fd: int,
        *,
        title: str = "the engine",
        startup_choices: StartupChoices | None = None,
        on_ready: Callable[[], None] = lambda: None,
        fork_server: ForkServerSupervisor | None = None,
    ) -> None:
        """engine_fd: the engine's end of the socket pair that hands over connections.

        title: name of the engine in the log.
        startup_choices: those of an earlier engine of the model.
        on_ready: called whenever an engine has loaded the model.
        fork_server: starts the launcher; without a fork server it is started as a program.
        """
        self._row = model.rows - 1  # rows of the shared counters
        self._counters, self._on_ready = model.counters(self._row), on_ready
        self.startup_choices = startup_choices  # choices of the latest engine
        self._engine_pid: int | None = None
        self._title, self._fork_server = title, fork_server
        settings = model.settings
        spec = EngineSpec(
            title=title,
            folder=str(model.folder),
            device=settings.device,
            dtype=settings.dtype,
            isa=settings.isa,
            pooling=settings.pooling,
            rerank_format=settings.rerank_format,
            adapter=settings.adapter,
            threads=settings.threads,
            max_batch_tokens=settings.max_batch_tokens,
            log_level=settings.log_level,
            log_format=settings.log_format,
            accept_fd=engine_fd,
            counters_fd=model.counters_fd,
            counters_rows=model.rows,
        )

        def config() -> bytes:
            return orjson.dumps(replace(spec, startup_choices=self.startup_choices))

        pass_fds = [engine_fd, model.counters_fd]
        limits = HangLimits(start=settings.load_timeout)
        child = ChildSpec(title, "embedwell.engine", config, pass_fds, limits)
        super().__init__(child, self._on_engine_report, self._count_restart)

    @property
    def restarts(self) -> int:
        """Number of restarts of the engine."""
        return int(self._counters.read(Slot.ENGINE_RESTARTS, self._row))

    def replace_stalled(self, restarts: int) -> None:
        """Kill the engine that was started after so many restarts, if it still runs."""
        if restarts != self.restarts or self._engine_pid is None:
            return
        log.error("%s hangs and is killed", self._title)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._engine_pid, signal.SIGKILL)  # its launcher forks another engine
        self._engine_pid = None
        self.restart_start_timer()

    async def _spawn(self, output: int) -> Process:
        if self._fork_server is None:
            return await super()._spawn(output)
        return await self._fork_server.fork(output)

    def _on_engine_report(self, report: Report) -> None:
        if report["event"] == "ready":
            self.startup_choices = StartupChoices(**report["startup_choices"])
            self._engine_pid = report["engine"]
            self._on_ready()

    def _count_restart(self) -> None:
        self._counters.row[Slot.ENGINE_RESTARTS] += 1
