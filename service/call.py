"""What is known of one HTTP request while it is answered, and told in its headers."""

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Call:
    """Times are in microseconds: tokenising, waiting for the engine, inside forward passes."""

    id: str
    started: float = field(default_factory=time.perf_counter)
    texts: int = 0
    tokens: int = 0
    truncated: int = 0
    tokenize_us: int = 0
    queue_us: int = 0
    compute_us: int = 0

    @property
    def total_us(self) -> int:
        return round((time.perf_counter() - self.started) * 1e6)

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of every answer."""
        values = {
            "x-request-id": self.id,
            "x-tokens": self.tokens,
            "x-truncated": self.truncated,
            "x-tokenize-us": self.tokenize_us,
            "x-queue-us": self.queue_us,
            "x-compute-us": self.compute_us,
            "x-total-us": self.total_us,
        }
        return [(name.encode(), str(value).encode()) for name, value in values.items()]
