"""The contest of the engines: workers that are started, find their settings and take turns."""

import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from deploy.benchmark import environments
from deploy.benchmark.contestants import Contestant
from deploy.benchmark.environments import Unavailable
from deploy.benchmark.peers.batching import Floats
from deploy.benchmark.peers.protocol import Job
from deploy.benchmark.worker import Worker
from deploy.benchmark.workloads import Workload

_PAUSE = 0.1  # seconds until the threads of the one before have stopped spinning


@dataclass
class Entry:
    """A contestant that runs, and what was measured of it. rounds: workload -> a number a round."""

    contestant: Contestant
    worker: Worker
    settings: dict[str, Any] = field(default_factory=dict)
    vectors: dict[str, Floats] = field(default_factory=dict)
    rounds: dict[str, list[float]] = field(default_factory=dict)


def start(
    chosen: Sequence[Contestant], job: Job, home: Path, log: IO[str], stack: ExitStack
) -> list[Entry]:
    """A worker for each contestant; those that cannot be had are named, with the reason."""
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
    """Let each find its best settings, alone; those that die are left out, by name."""
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
    """All rounds: of each workload every contestant in turn, another one first each time."""
    for number in range(rounds):
        for workload in work:
            note(f"round {number + 1} of {rounds}: {workload.name}")
            for place in range(len(entries)):
                entry = entries[(place + number) % len(entries)]
                time.sleep(_PAUSE)
                seconds = entry.worker.run(workload.name, workload.passes)
                entry.rounds.setdefault(workload.name, []).append(statistics.median(seconds))


def note(text: str) -> None:
    """What is being done, on standard error."""
    print(text, file=sys.stderr, flush=True)
