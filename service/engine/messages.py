"""What the HTTP process and the engine process say to each other, as ZeroMQ frames."""

from collections.abc import Sequence
from dataclasses import dataclass
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

    def frames(self) -> Frames:
        lengths = np.fromiter(map(len, self.rows), dtype=np.int32, count=len(self.rows))
        return [orjson.dumps(self.output), lengths.tobytes(), np.concatenate(self.rows).tobytes()]

    @classmethod
    def parse(cls, frames: Sequence[bytes]) -> "Job":
        output, lengths, flat = frames
        borders = np.frombuffer(lengths, dtype=np.int32).cumsum()[:-1]
        return cls(orjson.loads(output), np.split(np.frombuffer(flat, dtype=np.int32), borders))


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

    def frames(self) -> Frames:
        head = (self.vectors.shape[1], self.queue_us, self.compute_us, self.rate)
        return [orjson.dumps(head), self.vectors.data]

    @classmethod
    def parse(cls, frames: Sequence[Any]) -> "Result":
        dim, *figures = orjson.loads(frames[0])
        return cls(np.frombuffer(frames[1], dtype=np.float32).reshape(-1, dim), *figures)


@dataclass(frozen=True, slots=True)
class Failure:
    """The answer to a Job that could not be done; index: which of its texts is at fault."""

    message: str
    index: int

    def frames(self) -> Frames:
        return [orjson.dumps({"message": self.message, "index": self.index})]

    @classmethod
    def parse(cls, frames: Sequence[Any]) -> "Failure":
        return cls(**orjson.loads(frames[0]))


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
    """What a loaded engine says of itself."""

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
    threads: int
    fingerprint: str

    def frames(self) -> Frames:
        return [orjson.dumps(self)]

    @classmethod
    def parse(cls, frames: Sequence[Any]) -> "Description":
        return cls(**orjson.loads(frames[0]))
