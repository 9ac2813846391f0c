"""Worker's side of the benchmark of engines, and helpers of its engines. It speaks lines of JSON.

A worker reads questions from standard input, and computes only between a question and its answer.
"""

import base64
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

_BUDGETS = (2048, 1024, 512, 4096, 256, 128)  # tokens of one forward pass, likely ones first
_LARGEST_BUDGETS = {"splade": 1024}  # by head: logits of all words take 120 KB for each token
_TRIED = 4  # groups of a workload that settings are tried on
_HOPELESS = 1.5  # times the best: a setting as slow as this at first sight is not tried again


def batches(lengths: Sequence[int], budget: int, *, padded: bool) -> list[list[int]]:
    """Return batches of indices by length, within the budget of tokens, with at least one text.

    padded: whether padding to the longest row counts.
    """
    parts: list[list[int]] = []
    total = budget + 1  # the first row then starts a batch
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        length = lengths[index]
        total = length * (len(parts[-1]) + 1) if padded and parts else total + length
        if not parts or total > budget:
            parts.append([])
            total = length
        parts[-1].append(index)
    return parts


def pad(rows: Sequence[Ids]) -> tuple[Integers, Integers]:
    """Return token ids and attention mask of a batch: B rows -> two arrays (B, longest)."""
    lengths = np.array([len(row) for row in rows])
    holds = np.arange(lengths.max()) < lengths[:, None]
    ids = np.zeros(holds.shape, dtype=np.int64)
    ids[holds] = np.concatenate(rows)
    return ids, holds.astype(np.int64)


class Refused(Exception):
    """The engine is not available here; the message says why."""


@dataclass(frozen=True)
class Job:
    """Job of a worker, which it gets at its start.

    folder: the model. cache: folder for converted models. calibration: token ids. head: one of
    graph.GRAPHS. isa: the highest instruction set of this project's kernels.
    """

    folder: str
    cache: str
    precision: str
    threads: int
    calibration: list[list[int]]
    head: str = "mean"
    isa: str = "auto"


class Engine(Protocol):
    """Protocol of a measured engine. modes: ways to run batches; a trial chooses the best mode.

    padded: whether rows are padded to the longest row of a batch. about: versions.
    """

    @property
    def modes(self) -> Sequence[str]: ...

    @property
    def padded(self) -> bool: ...

    @property
    def about(self) -> dict[str, Any]: ...

    def encode(self, work: Sequence[Sequence[Ids]], mode: str) -> Iterable[Floats]:
        """Return the unit vectors of each batch: of rows (B, D), or of tokens (B, L, D)."""


@dataclass(frozen=True)
class Setting:
    """Best setting of a workload: tokens of a batch, and a mode of the engine."""

    budget: int
    mode: str


@dataclass
class Workload:
    """Groups of rows; each group is embedded and timed as a whole."""

    groups: list[list[Ids]]
    setting: Setting


def serve(build: Callable[[Job], Engine]) -> None:
    """Answer questions until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries must not mix with the answers

    def answer(**fields: Any) -> None:
        print(json.dumps(fields), file=answers, flush=True)

    try:
        job = Job(**json.loads(sys.stdin.readline()))
        engine = build(job)
    except Refused as reason:
        answer(refused=str(reason))
        return
    answer(about=engine.about)
    largest = _LARGEST_BUDGETS.get(job.head, max(_BUDGETS))
    workloads: dict[str, Workload] = {}
    for line in sys.stdin:
        question = json.loads(line)
        name = question["name"]
        if question["ask"] == "prepare":
            groups = [[np.array(row, dtype=np.int32) for row in group] for group in question["of"]]
            budgets = [each for each in _BUDGETS if each <= largest]
            workloads[name] = Workload(groups, best(engine, groups[:_TRIED], budgets))
            vectors = np.concatenate([_encode(engine, g, workloads[name].setting) for g in groups])
            text = base64.b64encode(vectors.astype("<f4").tobytes()).decode()
            setting = asdict(workloads[name].setting)
            answer(setting=setting, vectors=text, width=vectors.shape[1])
        else:
            answer(seconds=timed(engine, workloads[name], question["passes"]))


def best(engine: Engine, groups: list[list[Ids]], budgets: Sequence[int]) -> Setting:
    """Return the setting that embeds the groups fastest in a short trial."""
    seconds: dict[Setting, float] = {}
    for setting in _settings(engine, groups, budgets):
        first = _pass(engine, groups, setting)
        if first < _HOPELESS * min(seconds.values(), default=first):
            seconds[setting] = min(_pass(engine, groups, setting) for _ in range(2))
    return min(seconds, key=seconds.__getitem__)


def timed(engine: Engine, workload: Workload, passes: int) -> list[float]:
    """Return the seconds of each group in each pass, after one warm-up pass."""
    times = []
    for number in range(1 + passes):
        for group in workload.groups:
            begin = time.perf_counter()
            _encode(engine, group, workload.setting)
            if number:
                times.append(time.perf_counter() - begin)
    return times


def _settings(engine: Engine, groups: list[list[Ids]], budgets: Sequence[int]) -> Iterable[Setting]:
    seen = []
    for budget in budgets:
        cut = [batches([len(row) for row in g], budget, padded=engine.padded) for g in groups]
        if cut not in seen:  # a larger budget may change nothing
            seen.append(cut)
            yield from (Setting(budget, mode) for mode in engine.modes)


def _pass(engine: Engine, groups: list[list[Ids]], setting: Setting) -> float:
    begin = time.perf_counter()
    for group in groups:
        _encode(engine, group, setting)
    return time.perf_counter() - begin


def _encode(engine: Engine, rows: list[Ids], setting: Setting) -> Floats:
    work = batches([len(row) for row in rows], setting.budget, padded=engine.padded)
    outputs = list(engine.encode([[rows[i] for i in batch] for batch in work], setting.mode))
    if outputs[0][0].ndim == 2:
        tokens = {
            index: row
            for batch, part in zip(work, outputs, strict=True)
            for index, row in zip(batch, part, strict=True)
        }
        return np.concatenate([tokens[i][: len(row)] for i, row in enumerate(rows)])
    vectors = np.empty((len(rows), outputs[0].shape[1]), dtype=np.float32)
    for batch, part in zip(work, outputs, strict=True):
        vectors[batch] = part
    return vectors


def conversion_folder(cache: str, folder: str, *parts: str) -> Path:
    """Return the folder of a converted model, by the model and other inputs of the conversion."""
    path = Path(cache) / "converted" / "-".join((Path(folder).name, *parts))
    path.mkdir(parents=True, exist_ok=True)
    return path
