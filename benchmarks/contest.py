"""Contest of the engines: their workers are started, find their settings and take turns."""

import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from benchmarks import environments
from benchmarks.contestants import Contestant
from benchmarks.environments import Unavailable
from benchmarks.peers.batching import Floats
from benchmarks.peers.protocol import Job
from benchmarks.worker import Worker
from benchmarks.workloads import Workload

_PAUSE = 0.1  # seconds until the threads of the previous worker stop spinning


@dataclass
class Entry:
    """A running contestant and its measurements. rounds: workload -> a number for each round."""

    contestant: Contestant
    worker: Worker
    settings: dict[str, Any] = field(default_factory=dict)
    vectors: dict[str, Floats] = field(default_factory=dict)
    rounds: dict[str, list[float]] = field(default_factory=dict)


def start(
    chosen: Sequence[Contestant], job: Job, home: Path, log: IO[str], stack: ExitStack
) -> list[Entry]:
    """Start a worker for each contestant; report unavailable contestants with the reason."""
    entries = []
    for contestant in chosen:
        try:
            name = contestant.environment
            python = environments.python(home, name) if name else Path(sys.executable)
            note(f"starting {contestant.name}")
            own = replace(job, precision=contestant.precision)
            worker = Worker(python, contestant.module, own, log)
            stack.callback(worker.stop)
            entries.append(Entry(contestant, worker))
        except Unavailable as reason:
            note(f"skipped: {contestant.name}: {reason}")
    return entries


def prepare(entries: list[Entry], work: Sequence[Workload]) -> None:
    """Let each worker find its best settings alone; drop and name workers that die."""
    for entry in [*entries]:
        for workload in work:
            note(f"trying settings: {entry.contestant.name}, {workload.name}")
            try:
                prepared = entry.worker.prepare(workload.name, workload.groups)
            except Unavailable as reason:
                note(f"left out: {entry.contestant.name}: {reason}")
                entries.remove(entry)
                break
            entry.settings[workload.name] = prepared.setting
            entry.vectors[workload.name] = prepared.vectors


def measure(entries: Sequence[Entry], work: Sequence[Workload], rounds: int) -> None:
    """Run all rounds: contestants take turns on each workload, in rotating order."""
    for number in range(rounds):
        for workload in work:
            note(f"round {number + 1} of {rounds}: {workload.name}")
            for place in range(len(entries)):
                entry = entries[(place + number) % len(entries)]
                time.sleep(_PAUSE)
                seconds = entry.worker.run(workload.name, workload.passes)
                entry.rounds.setdefault(workload.name, []).append(statistics.median(seconds))


def note(text: str) -> None:
    """Print the current step to standard error."""
    print(text, file=sys.stderr, flush=True)
