"""Contest of the engines: their workers are started, find their settings and take turns."""

import base64
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from benchmarks import environments
from benchmarks.environments import OFFLINE, ROOT, Unavailable, threads
from benchmarks.peers.protocol import Floats, Job
from benchmarks.workloads import Workload

_PAUSE = 0.1  # seconds until the threads of the previous worker stop spinning

Groups = Sequence[Sequence[Sequence[int]]]
"""Groups of rows of token ids."""


@dataclass(frozen=True)
class Contestant:
    """A compared engine. environment: a file in requirements/; None for the driver's interpreter.

    precision: precision of the products, and of the rest if it is not the engine's choice. head:
    the only head in graph.GRAPHS that the engine computes, if there is one.
    """

    name: str
    module: str
    environment: str | None
    precision: str
    head: str | None = None


REFERENCE = Contestant(
    "sentence-transformers", "sentence_transformers", "sentence-transformers", "float32"
)
OURS = tuple(
    Contestant(f"this, {precision}", "ours", None, precision)
    for precision in ("float32", "bfloat16", "int8")
)
PEERS = (
    Contestant("Infinity, float32", "infinity", "infinity", "float32", head="pair"),
    Contestant("onnxruntime, float32", "onnxruntime", "onnxruntime", "float32"),
    *(
        Contestant(f"OpenVINO, {precision}", "openvino", "openvino", precision)
        for precision in ("float32", "bfloat16", "int8", "int8 in float32")
    ),
    Contestant("llama.cpp, float32", "llama_cpp", "llama-cpp", "float32", head="mean"),
    Contestant("llama.cpp, q8_0", "llama_cpp", "llama-cpp", "int8", head="mean"),
)
CONTESTANTS = (REFERENCE, *PEERS, *OURS)


@dataclass(frozen=True)
class Prepared:
    """Best setting of a worker for a workload, and its vectors."""

    setting: dict[str, Any]
    vectors: Floats


class Worker:
    """A contestant in a process of its own, which computes only during a method call."""

    def __init__(self, python: Path, module: str, job: Job, log: IO[str]) -> None:
        """Start the process; raises Unavailable if the engine refuses the job or dies."""
        command = [str(python), "-m", f"benchmarks.peers.{module}"]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | OFFLINE | threads(job.threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            self.about: dict[str, Any] = self._ask(**asdict(job))["about"]
        except Unavailable:
            self.stop()
            raise

    def prepare(self, name: str, groups: Groups) -> Prepared:
        """Send a workload; the worker tries its settings on it."""
        response = self._ask(ask="prepare", name=name, of=groups)
        vectors = np.frombuffer(base64.b64decode(response["vectors"]), dtype="<f4")
        return Prepared(response["setting"], vectors.reshape(-1, response["width"]))

    def run(self, name: str, passes: int) -> list[float]:
        """Return the seconds of each group of a workload in each pass."""
        seconds: list[float] = self._ask(ask="run", name=name, passes=passes)["seconds"]
        return seconds

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def _ask(self, **question: Any) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        with contextlib.suppress(BrokenPipeError):  # the process has died
            print(json.dumps(question), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        response: dict[str, Any] = json.loads(line) if line else {"refused": "it died; see the log"}
        if "refused" in response:
            raise Unavailable(response["refused"])
        return response


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


@dataclass(frozen=True)
class Fidelity:
    """Difference over all vectors of all workloads."""

    min_cosine: float
    mean_cosine: float
    max_difference: float


def fidelity(vectors: Mapping[str, Floats], reference: Mapping[str, Floats]) -> Fidelity:
    """Compute the cosines of all vectors to the reference's, and the largest difference."""
    ours, theirs = (
        np.concatenate([part[name] for name in reference]) for part in (vectors, reference)
    )
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    cosines = (ours.astype(np.float64) * theirs).sum(axis=1) / lengths
    return Fidelity(float(cosines.min()), float(cosines.mean()), float(np.abs(ours - theirs).max()))
