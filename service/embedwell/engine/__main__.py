"""Launcher of engine processes: `python -m embedwell.engine`, started by the server.

Importing torch takes most of an engine's start time. This process imports it once and stays
single-threaded, so that it can fork an engine, and another one if that dies.
"""

import gc
import logging
import os
import signal
import sys
from dataclasses import asdict, replace

import orjson

from embedwell.engine.process.main import run
from embedwell.engine.protocol.spec import EngineSpec, StartupChoices
from embedwell.process.logging import configure_logging
from embedwell.process.reports import report
from embedwell.process.supervisor import describe_end

log = logging.getLogger("embedwell.engine")


def main() -> None:
    """Run one engine after another until the server ends, or an engine fails to start."""
    spec = EngineSpec.from_json(sys.stdin.buffer.readline())
    configure_logging(spec.log_level, spec.log_format)
    # Signals may be sent to the process group, but the server decides when its engine stops.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    gc.collect()
    gc.freeze()  # garbage collections in engines would copy memory pages shared with them
    while True:
        choices, status = _run_engine(spec)
        if status == 0:  # the server has ended
            return
        if choices is None:
            sys.exit(status if status > 0 else 128 - status)
        log.error("%s %s; starting another", spec.title, describe_end(status))
        report("restarting")
        spec = replace(spec, startup_choices=choices)


def _run_engine(spec: EngineSpec) -> tuple[StartupChoices | None, int]:
    """Fork an engine and wait for its end; return its choices if it was ready, and its status."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reader)
        _run_in_child(spec, writer)
    os.close(writer)
    with open(reader, "rb") as pipe:
        line = pipe.readline()  # empty if it ends before it is ready
    choices = StartupChoices(**orjson.loads(line)) if line else None
    if choices:
        report("ready", engine=pid, startup_choices=asdict(choices))
    return choices, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _run_in_child(spec: EngineSpec, writer: int) -> None:
    def on_ready(choices: StartupChoices) -> None:
        with open(writer, "wb") as pipe:
            pipe.write(orjson.dumps(choices) + b"\n")

    run(spec, on_ready)
    sys.exit()


if __name__ == "__main__":
    main()
