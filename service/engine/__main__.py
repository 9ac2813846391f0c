"""The engine's launcher: `python -m service.engine`, started by the server.

To import torch takes most of the time that an engine needs until it is ready. This process imports
it once, computes nothing and has one thread, so that it can be forked: into an engine, and into
another one when that has died.
"""

import gc
import logging
import os
import signal
import sys
from dataclasses import asdict, replace

import orjson

from service.engine.protocol.spec import Decisions, EngineSpec
from service.engine.worker.process import run
from service.process.logging import configure_logging
from service.process.reports import report
from service.process.supervisor import describe_end

log = logging.getLogger("service.engine")


def main() -> None:
    """Have one engine after the other until the server is no more, or one cannot start."""
    spec = EngineSpec.read(sys.stdin.buffer.readline())
    configure_logging(spec.log_level)
    # Signals may reach the whole group: it is the server that decides when its engine stops.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    gc.collect()
    gc.freeze()  # a collection in the engine would copy the memory pages shared with this process
    while True:
        decisions, status = _launch(spec)
        if status == 0:  # the server is no more
            return
        if decisions is None:
            sys.exit(status if status > 0 else 128 - status)
        log.error("the engine %s; starting another", describe_end(status))
        report("restarting")
        spec = replace(spec, decisions=decisions)


def _launch(spec: EngineSpec) -> tuple[Decisions | None, int]:
    """Run an engine to its end: what it decided if it was ready, and its status."""
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        os.close(reader)
        _be_engine(spec, writer)
    os.close(writer)
    with open(reader, "rb") as pipe:
        line = pipe.readline()  # nothing, where it ends before
    decisions = Decisions(**orjson.loads(line)) if line else None
    if decisions:
        report("ready", engine=process, decisions=asdict(decisions))
    return decisions, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _be_engine(spec: EngineSpec, writer: int) -> None:
    def on_ready(decisions: Decisions) -> None:
        with open(writer, "wb") as pipe:
            pipe.write(orjson.dumps(decisions) + b"\n")

    run(spec, on_ready)
    sys.exit()


if __name__ == "__main__":
    main()
