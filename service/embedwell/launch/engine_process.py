"""Engine process of a server: `python -m embedwell.launch.engine_process`."""

import ctypes
import logging
import signal
import sys
from dataclasses import asdict

import orjson

from embedwell.engine.wire.spec import EngineSpec
from embedwell.gc_tuning import settle_heap
from embedwell.launch.logging import configure_logging
from embedwell.launch.supervised import (
    ENGINE,
    EXIT_PERMANENT_FAILURE,
    name_process,
    tell_supervisor,
)
from embedwell_models.errors import ModelError

log = logging.getLogger(__name__)

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


def run_engine(spec: EngineSpec) -> None:
    """Load the model, then compute until the server shuts down.

    Raises errors that may be temporary (memory, files or device are not available); exits on
    permanent ones.
    """
    # Here, so that an engine imports it while the first process imports what HTTP processes share.
    from embedwell.engine.worker.main import is_transient, start

    try:
        engine, startup_choices = start(spec)
    except Exception as error:
        message = str(error) or type(error).__name__
        tell_supervisor("failed", reason=f"{spec.model} cannot be loaded: {message}")
        if is_transient(error):
            raise
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
