"""Engine process of a server: `python -m embedwell.launch.engine_process`."""

import ctypes
import logging
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeAlias

import orjson

from embedwell.engine.wire.spec import EngineSpec, StartupChoices
from embedwell.gc_tuning import settle_heap
from embedwell.launch.logging import configure_logging
from embedwell.launch.supervised import (
    ENGINE,
    EXIT_PERMANENT_FAILURE,
    EXIT_TEMPORARY_FAILURE,
    name_process,
    tell_supervisor,
)
from embedwell_models.errors import ModelError

if TYPE_CHECKING:  # see run_engine
    from embedwell.engine.worker.loop import Loop

log = logging.getLogger(__name__)

Started: TypeAlias = "tuple[Loop, StartupChoices]"

_PR_SET_PDEATHSIG = 1  # man 2 prctl


def main() -> None:
    """Compute until the server closes standard input, or dies."""
    name_process(ENGINE)
    # Signals may be sent to all processes, but the server decides when its engines stop.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _end_with_parent()
    if line := sys.stdin.buffer.readline():  # empty if the server has ended meanwhile
        log_level, log_format, spec = orjson.loads(line)
        configure_logging(log_level, log_format)
        run_engine(EngineSpec.from_fields(spec))


def _end_with_parent() -> None:
    # An engine that hangs does not notice the end of standard input.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def run_engine(spec: EngineSpec, start: Callable[[EngineSpec], Started] | None = None) -> None:
    """Load the model, by default as a server does, then compute until the server shuts down.

    Raises errors that may be temporary (memory or files are not available); exits on permanent
    ones, and on a device that is not available now.
    """
    # Here, so that an engine imports it while the first process imports what HTTP processes share.
    from embedwell.engine.worker import main as worker

    try:
        engine, startup_choices = (start or worker.start)(spec)
    except Exception as error:
        message = str(error) or type(error).__name__
        tell_supervisor("failed", reason=f"{spec.model} cannot be loaded: {message}")
        if worker.is_transient(error):
            if not isinstance(error, ModelError):
                raise
            log.error("%s cannot be loaded: %s", spec.model, message)
            sys.exit(EXIT_TEMPORARY_FAILURE)
        if not isinstance(error, ModelError):
            # The same files give the same error: exit, so that the process manager sees the
            # failure, instead of restarting the engine forever.
            log.exception("%s cannot be loaded", spec.model)
        sys.exit(EXIT_PERMANENT_FAILURE)
    tell_supervisor("ready", startup_choices=asdict(startup_choices))
    settle_heap()
    engine.run()


if __name__ == "__main__":
    main()
