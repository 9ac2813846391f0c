"""What the HTTP process and the engine process say to each other, as ZeroMQ frames."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

Frames = list[Any]
Ids = npt.NDArray[np.int32]

REFUSED = 3  # exit status of an engine that will not load however often it is started
POOLED = "pooled"  # the output that is one vector for each text; any other is hidden states


@dataclass(frozen=True, slots=True)
class Job:
    """A request for vectors.

    output: POOLED, a number of layers, or a summand of the input ('token', …).
    rows: the token ids of each text.
    """

    output: str | int
    rows: list[Ids]


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to a Job: vectors (B, D), or hidden states (T, D) of all texts in a row.

    queue_us: from arrival to the start of the first batch. compute_us: inside forward passes.
    rate: tokens that the engine encodes in a second when it is full.
    """

    vectors: npt.NDArray[np.float32]
    queue_us: int
    compute_us: int
    rate: float


@dataclass(frozen=True, slots=True)
class Failure:
    """The answer to a Job that could not be done; index: which of its texts is at fault."""

    message: str
    index: int


Jobs = Sequence[tuple[int, Job]]
Outcomes = Sequence[tuple[int, Result | Failure]]


def pack_jobs(jobs: Jobs) -> Frames:
    """Numbered jobs as one message."""
    head = [(number, job.output, [len(row) for row in job.rows]) for number, job in jobs]
    return [orjson.dumps(head), np.concatenate([row for _, job in jobs for row in job.rows]).data]


def unpack_jobs(frames: Sequence[bytes]) -> Iterator[tuple[int, Job]]:
    """The way back of pack_jobs."""
    flat = np.frombuffer(frames[1], dtype=np.int32)
    start = 0
    for number, output, lengths in orjson.loads(frames[0]):
        stops = list(accumulate(lengths, initial=start))
        yield number, Job(output, [flat[a:b] for a, b in pairwise(stops)])
        start = stops[-1]


def pack_outcomes(outcomes: Outcomes) -> Frames:
    """Numbered answers as one message."""
    head = [
        (number, found.message, found.index)
        if isinstance(found, Failure)
        else (number, found.vectors.shape, found.queue_us, found.compute_us, found.rate)
        for number, found in outcomes
    ]
    parts = [found.vectors.data for _, found in outcomes if isinstance(found, Result)]
    return [orjson.dumps(head), parts[0] if len(parts) == 1 else b"".join(parts)]


def unpack_outcomes(frames: Sequence[bytes]) -> Iterator[tuple[int, Result | Failure]]:
    """The way back of pack_outcomes."""
    flat = np.frombuffer(frames[1], dtype=np.float32)
    start = 0
    for number, *found in orjson.loads(frames[0]):
        if len(found) == 2:
            yield number, Failure(*found)
            continue
        (rows, dim), *figures = found
        stop = start + rows * dim
        yield number, Result(flat[start:stop].reshape(rows, dim), *figures)
        start = stop


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """What an engine process is started with."""

    address: str
    folder: str
    device: str
    dtype: str
    threads: int
    max_batch_tokens: int
    log_level: str


@dataclass(frozen=True, slots=True)
class Description:
    """What a loaded engine says of itself.

    trials: how each precision that was tried compares with float32.
    """

    dim: int
    max_length: int
    num_layers: int
    max_positions: int
    vocab_size: int
    pooling: list[str]
    normalize: bool
    family: str
    device: str
    dtype: str
    trials: list[dict[str, Any]]
    threads: int
    fingerprint: str

    def frames(self) -> Frames:
        return [orjson.dumps(self)]

    @classmethod
    def parse(cls, frames: Sequence[Any]) -> "Description":
        return cls(**orjson.loads(frames[0]))
