"""How an engine is started: small, for the process that starts it imports little."""

from dataclasses import dataclass
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Decisions:
    """What an engine has found out when it was ready, and the next one need not find out again.

    device, dtype, max_batch_tokens: what it chose. trials: how each precision that was tried
    compared with float32. rate: tokens per second of a full pass.
    """

    device: str
    dtype: str
    trials: list[dict[str, Any]]
    max_batch_tokens: int
    rate: float


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """What an engine process is started with.

    handoff: the descriptor on which it hands out connections.

    max_batch_tokens: 0 for what the engine finds best. isa: the highest instruction set to use.
    pooling: in place of the one that the model's files name, unless auto.
    counters_fd, counters_rows: the shared counters, whose last row has room for the engine's.
    decisions: of the engine before, if there was one.
    """

    folder: str
    device: str
    dtype: str
    isa: str
    pooling: str
    threads: int
    max_batch_tokens: int
    log_level: str
    handoff: int
    counters_fd: int
    counters_rows: int
    decisions: Decisions | None = None

    @classmethod
    def read(cls, line: bytes) -> "EngineSpec":
        """The way back of orjson.dumps."""
        fields = orjson.loads(line)
        decisions = fields.pop("decisions")
        return cls(**fields, decisions=Decisions(**decisions) if decisions else None)
