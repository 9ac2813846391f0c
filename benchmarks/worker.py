"""Driver's side of a worker: a process that answers lines of JSON."""

import base64
import contextlib
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from benchmarks.environments import ROOT, Unavailable
from benchmarks.peers.batching import Floats
from benchmarks.peers.protocol import Job

OFFLINE = {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "VLLM_NO_USAGE_STATS": "1"}
Groups = Sequence[Sequence[Sequence[int]]]  # groups of rows of token ids


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


def threads(count: int) -> dict[str, str]:
    """Return environment variables that limit numerical libraries to this number of threads."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return dict.fromkeys(names, str(count))
