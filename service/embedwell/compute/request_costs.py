"""The memory, tokens and time that a request uses."""

from dataclasses import dataclass, field

from embedwell.compute.memory_budget import Reservation


@dataclass(slots=True, kw_only=True)
class RequestCosts:
    """The memory, tokens and time that a request uses, for its headers, metrics and limits.

    memory: the request's reservation.
    body_bytes: size of its body.

    The reader of inputs sets model_index, texts, tokens, truncated (a count of texts),
    tokenize_start (time.perf_counter) and tokenize_us.

    The pipeline sets cached (a count of vectors), queue_us (until the first batch starts) and
    compute_us (until the last batch ends).
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
