"""The metrics of a server's models: totals, and what is read when Prometheus scrapes."""

from collections.abc import Callable, Sequence
from functools import partial

from embedwell.inference.served_model import ServedModel
from embedwell.metrics.metrics import Metrics

_GAUGES: Sequence[tuple[str, str, Callable[[ServedModel], float]]] = (
    ("queued_tokens", "Tokens admitted and not answered.", lambda m: m.admission.queued_tokens),
    (
        "wait_seconds",
        "Time in which all that is queued is answered.",
        lambda m: m.admission.backlog_seconds,
    ),
    ("tokens_per_second", "Of a full engine.", lambda m: m.engine.rate.latest),
    ("ready", "Whether the engine embeds.", lambda m: m.ready),
    ("engine_restarts", "Engines started again.", lambda m: m.engine.restarts),
)
_COUNTERS: Sequence[tuple[str, str, Callable[[ServedModel], float]]] = (
    (
        "replayed_requests",
        "Computed again as the engine died.",
        lambda m: m.replay.replayed_jobs,
    ),
    (
        "quarantined_inputs",
        "Refused as the engine died of them.",
        lambda m: m.replay.quarantined_texts,
    ),
)


def build_metrics(models: Sequence[ServedModel]) -> Metrics:
    """Build the metrics of a server. models: all of them; the counters of the first count paths."""
    counters = {model.name: model.engine.counters for model in models}
    metrics = Metrics(models[0].engine.counters, counters)
    for name, text, read in _GAUGES:
        metrics.register_gauge(name, text, [partial(read, model) for model in models])
    for name, text, read in _COUNTERS:
        metrics.register_counter(name, text, [partial(read, model) for model in models])
    return metrics
