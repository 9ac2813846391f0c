"""Keep the engine running, and replace it when it hangs."""

import contextlib
import logging
import os
import signal
from dataclasses import replace

import orjson

from service.context import ServerContext
from service.engine.protocol.spec import EngineSpec, StartupChoices
from service.process.reports import Report
from service.process.shared_counters import Slot
from service.process.supervisor import Child, Supervisor
from service.process.watchdog import Limits

log = logging.getLogger(__name__)


class EngineSupervisor(Supervisor):
    """Runs the launcher of the engine, and passes on the choices of the previous engine."""

    def __init__(self, context: ServerContext, engine_fd: int) -> None:
        """engine_fd: the engine's end of the socket pair that hands over connections."""
        self._row = context.rows - 1  # of the shared counters
        self._counters = context.counters(self._row)
        self._startup_choices: StartupChoices | None = None  # of the latest engine
        self._engine_pid: int | None = None
        settings = context.settings
        spec = EngineSpec(
            folder=str(context.model),
            device=settings.device,
            dtype=settings.dtype,
            isa=settings.isa,
            pooling=settings.pooling,
            rerank_format=settings.rerank_format,
            adapter=settings.adapter,
            threads=settings.threads,
            max_batch_tokens=settings.max_batch_tokens,
            log_level=settings.log_level,
            handoff_fd=engine_fd,
            counters_fd=context.counters_fd,
            counters_rows=context.rows,
        )

        def config() -> bytes:
            return orjson.dumps(replace(spec, startup_choices=self._startup_choices))

        pass_fds = [engine_fd, context.counters_fd]
        limits = Limits(start=settings.load_timeout)
        child = Child("the engine", "service.engine", config, pass_fds, limits)
        super().__init__(child, self._on_engine_report, self._count_restart)

    @property
    def restarts(self) -> int:
        """How often an engine was started again."""
        return int(self._counters.read(Slot.ENGINE_RESTARTS, self._row))

    def replace_stalled(self, restarts: int) -> None:
        """Kill the engine that was started after so many restarts, if it still runs."""
        if restarts != self.restarts or self._engine_pid is None:
            return
        log.error("the engine hangs and is killed")
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._engine_pid, signal.SIGKILL)  # its launcher forks another
        self._engine_pid = None
        self.restart_start_timer()

    def _on_engine_report(self, report: Report) -> None:
        if report["event"] == "ready":
            self._startup_choices = StartupChoices(**report["startup_choices"])
            self._engine_pid = report["engine"]

    def _count_restart(self) -> None:
        self._counters.row[Slot.ENGINE_RESTARTS] += 1
