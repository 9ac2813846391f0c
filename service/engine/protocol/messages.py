"""What the HTTP process and the engine process say to each other."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from service.engine.protocol.wire import Message

Ids = npt.NDArray[np.int32]

POOLED = "pooled"  # the output that is one vector for each text; any other is hidden states


@dataclass(frozen=True, slots=True)
class Job:
    """A request for vectors.

    output: POOLED, a number of layers, or a summand of the input ('token', …).
    rows: the token ids of each text. skips: how many of each are not pooled; () for none.
    size: the class of the whole request, which may be several jobs: see `sizes` beside this.
    begun: when it began to wait, by time.perf_counter, which all processes of a machine share.
    exclusive: whether nothing else may be computed at the same time; such a job has one text.
    """

    output: str | int
    rows: list[Ids]
    skips: Sequence[int] = ()
    size: int = 0
    begun: float = field(default_factory=time.perf_counter, compare=False)
    exclusive: bool = False

    @property
    def tokens(self) -> int:
        """Of all texts together."""
        return sum(map(len, self.rows))


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to a Job: vectors (B, D), or hidden states (T, D) of all texts in a row.

    queue_us: until the start of its first pass. compute_us: to the end of its last.
    rate: tokens that the engine encodes in a second when it is full.
    cached: how many of the vectors need not be computed for it.
    """

    vectors: npt.NDArray[np.float32]
    queue_us: int
    compute_us: int
    rate: float
    cached: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """The answer to a Job that could not be done; index: which of its texts is at fault.

    finite: False where its vector held NaN or infinity.
    """

    message: str
    index: int
    finite: bool = True


Jobs = Sequence[tuple[int, Job]]
Outcomes = Sequence[tuple[int, Result | Failure]]


def pack_jobs(jobs: Jobs) -> Message:
    """Numbered jobs as one message."""
    head = [
        (number, job.output, [*map(len, job.rows)], job.skips, job.size, job.begun, job.exclusive)
        for number, job in jobs
    ]
    return ["jobs", head], np.concatenate([row for _, job in jobs for row in job.rows])


def unpack_jobs(heads: Iterable[Any], body: Any) -> Iterator[tuple[int, Job]]:
    """The way back of pack_jobs, from what follows the verb."""
    flat = np.frombuffer(body, dtype=np.int32)
    start = 0
    for number, output, lengths, *rest in heads:
        stops = list(accumulate(lengths, initial=start))
        yield number, Job(output, [flat[a:b] for a, b in pairwise(stops)], *rest)
        start = stops[-1]


def pack_outcomes(outcomes: Outcomes) -> Message:
    """Numbered answers as one message."""
    head = [
        (number, found.message, found.index, found.finite)
        if isinstance(found, Failure)
        else (number, found.vectors.shape, found.queue_us, found.compute_us, found.rate)
        for number, found in outcomes
    ]
    parts = [found.vectors.data for _, found in outcomes if isinstance(found, Result)]
    return ["outcomes", head], parts[0] if len(parts) == 1 else b"".join(parts)


def unpack_outcomes(heads: Iterable[Any], body: Any) -> Iterator[tuple[int, Result | Failure]]:
    """The way back of pack_outcomes, from what follows the verb."""
    flat = np.frombuffer(body, dtype=np.float32)
    start = 0
    for number, *found in heads:
        if len(found) == 3:
            yield number, Failure(*found)
            continue
        (rows, dim), *figures = found
        stop = start + rows * dim
        yield number, Result(flat[start:stop].reshape(rows, dim), *figures)
        start = stop


@dataclass(frozen=True, slots=True)
class Description:
    """What a loaded engine says of itself.

    trials: how each precision that was tried compares with float32.
    max_batch_tokens: of a forward pass, as asked for or chosen.
    kernels: the instruction set that they were compiled for; None on torch alone.
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
    max_batch_tokens: int
    fingerprint: str
    kernels: str | None
