"""What one request takes: memory, tokens and time."""

from dataclasses import dataclass, field

from embedwell.limits.memory_budget import Reservation


@dataclass(slots=True, kw_only=True)
class RequestCosts:
    """What one request takes; all that reading and computing know of it.

    memory: its reservation.
    body_bytes: the size of its body.
    model_index, texts, tokens, truncated (a count of texts), and tokenize_us since tokenize_start:
        written by readers of inputs.
    cached (a count of vectors), queue_us until the first batch, and compute_us until the end of the
        last batch: written by the pipeline.
    """

    memory: Reservation = field(default_factory=Reservation)
    body_bytes: int = 0
    model_index: int = 0
    texts: int = 0
    tokens: int = 0
    truncated: int = 0
    tokenize_start: float = 0.0
    tokenize_us: int = 0
    cached: int = 0
    queue_us: int = 0
    compute_us: int = 0
