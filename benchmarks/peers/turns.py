"""Worker's side of a contest in turns: loads one engine, then computes inputs when it is asked."""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

STARTED = time.perf_counter()
_SHOWN = 4  # inputs whose outputs are compared

T = TypeVar("T")
Load = Callable[[Path, int, str], Callable[[Sequence[T]], Any]]
"""Function of the model's folder, the threads and the precision: returns the engine's function."""


def answer(engines: Mapping[str, Load[T]], read: Callable[[Path], Sequence[T]]) -> None:
    """Answer questions until standard input ends: the seconds of each request of a size.

    engines: loaders by their names on the command line. read: reads all inputs.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries must not mix with the answers
    engine, folder, threads, dtype, inputs = sys.argv[1:]
    items = read(Path(inputs))
    compute = engines[engine](Path(folder), int(threads), dtype)
    outputs = [[float(value) for value in row] for row in compute(items[:_SHOWN])]
    first: dict[str, Any] = {"start": time.perf_counter() - STARTED, "outputs": outputs}
    print(json.dumps(first), file=answers, flush=True)
    for line in sys.stdin:
        size, seconds = int(line), []
        for start in range(0, len(items), size):
            begin = time.perf_counter()
            compute(items[start : start + size])
            seconds.append(time.perf_counter() - begin)
        print(json.dumps({"seconds": seconds, "peak": peak_mb()}), file=answers, flush=True)


def peak_mb() -> float:
    """Return the most memory that this process had; getrusage counts the driver's, too."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields["VmHWM"].split()[0]) / 1024
