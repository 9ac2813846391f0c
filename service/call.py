"""What is known of one HTTP request while it is answered, and told in its headers."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Call:
    """Times are in microseconds: tokenising, waiting for the engine, inside forward passes.

    task: what works on the answer; it ends when the client hangs up. accept: the media types that
    the client takes. size: bytes of the body.
    """

    id: str
    task: "asyncio.Task[Any] | None" = None
    accept: bytes = b""
    size: int = 0
    hung_up: bool = False
    late: bool = False
    started: float = field(default_factory=time.perf_counter)
    texts: int = 0
    tokens: int = 0
    truncated: int = 0
    cached: int = 0
    tokenize_us: int = 0
    queue_us: int = 0
    compute_us: int = 0

    def hang_up(self) -> None:
        """Nobody waits for the answer any more."""
        self.hung_up = True
        if self.task is not None:
            self.task.cancel()

    def expire(self) -> None:
        """The body has not come in time."""
        self.late = True
        if self.task is not None:
            self.task.cancel()

    @property
    def ended(self) -> bool:
        """Whether the work was cancelled on the client's account."""
        return self.hung_up or self.late

    @property
    def total_us(self) -> int:
        return round((time.perf_counter() - self.started) * 1e6)

    def account(self) -> dict[str, Any]:
        """What the whole request took, for an answer that tells it."""
        return {
            "usage": {"texts": self.texts, "tokens": self.tokens},
            "timing": {
                "tokenize_us": self.tokenize_us,
                "queue_us": self.queue_us,
                "compute_us": self.compute_us,
                "total_us": self.total_us,
            },
        }

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of every answer."""
        return [
            (b"x-request-id", self.id.encode()),
            (b"x-tokens", b"%d" % self.tokens),
            (b"x-truncated", b"%d" % self.truncated),
            (b"x-cached", b"%d" % self.cached),
            (b"x-tokenize-us", b"%d" % self.tokenize_us),
            (b"x-queue-us", b"%d" % self.queue_us),
            (b"x-compute-us", b"%d" % self.compute_us),
            (b"x-total-us", b"%d" % self.total_us),
        ]
