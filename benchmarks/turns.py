"""Contest of engines whose workers compute requests of several sizes, in turn in one run."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from benchmarks import environments
from benchmarks.environments import OFFLINE, ROOT, Unavailable, threads
from benchmarks.script import choose

_PAUSE = 0.1  # seconds until the threads of the previous worker stop spinning


@dataclass(frozen=True)
class Contest:
    """What all contestants do.

    module: of the workers, in benchmarks.peers, which is also the name of the log. model: folder of
    the model. inputs: what a worker reads: a folder or a file. sizes: numbers of inputs of a
    request; a turn computes all inputs in requests of one size.
    """

    module: str
    model: Path
    inputs: Path
    sizes: Sequence[int]


@dataclass
class Contestant:
    """A compared engine and its measurements.

    engine: its name in the module of the workers. environment: a file in requirements/; None for
    the driver's interpreter. rounds: by the size of a request, its median of seconds. start:
    seconds until the first outputs. peak: MB. outputs: of the first inputs.
    """

    name: str
    engine: str
    dtype: str
    environment: str | None
    rounds: dict[int, list[float]] = field(default_factory=dict)
    start: float = 0.0
    peak: float = 0.0
    outputs: Any = None


class Worker:
    """A contestant in a process and a session of its own."""

    def __init__(
        self, entry: Contestant, contest: Contest, args: argparse.Namespace, log: IO[str]
    ) -> None:
        """Start the process; raises Unavailable if it cannot."""
        name = entry.environment
        python = environments.python(args.home, name) if name else sys.executable
        options = entry.engine, contest.model, args.threads, entry.dtype, contest.inputs
        self._module = contest.module
        self._process = subprocess.Popen(
            [str(python), "-m", f"benchmarks.peers.{self._module}", *map(str, options)],
            cwd=ROOT,
            env=os.environ | OFFLINE | threads(args.threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        self.first = self._answer()

    def run(self, size: int) -> dict[str, Any]:
        """Compute all inputs in requests of a size."""
        assert self._process.stdin
        print(size, file=self._process.stdin, flush=True)
        return self._answer()

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            self.stop()
            raise Unavailable(f"it died; see {self._module}.log")
        answer: dict[str, Any] = json.loads(line)
        return answer


def compare(
    chosen: Sequence[Contestant], contest: Contest, args: argparse.Namespace
) -> list[Contestant]:
    """Measure the contestants of --only in --rounds; return those that are available."""
    names = choose([each.name for each in chosen], args.only)
    with ExitStack() as stack:
        log = stack.enter_context((args.home / f"{contest.module}.log").open("w"))
        running = []
        for entry in chosen:
            if entry.name not in names:
                continue
            try:
                worker = Worker(entry, contest, args, log)
            except Unavailable as reason:
                print(f"skipped: {entry.name}: {reason}", file=sys.stderr)
                continue
            stack.callback(worker.stop)
            entry.outputs, entry.start = worker.first["outputs"], worker.first["start"]
            running.append((entry, worker))
        for _ in range(args.rounds):
            for size in contest.sizes:
                for entry, worker in running:
                    time.sleep(_PAUSE)
                    answer = worker.run(size)
                    seconds = statistics.median(answer["seconds"])
                    entry.rounds.setdefault(size, []).append(seconds)
                    entry.peak = answer["peak"]
    return [entry for entry, _ in running]


def numbers(entry: Contestant) -> dict[str, Any]:
    """Return the measurements of a contestant for the file of the results."""
    return {
        "seconds": {str(size): seconds for size, seconds in entry.rounds.items()},
        "start": entry.start,
        "peak": entry.peak,
    }
