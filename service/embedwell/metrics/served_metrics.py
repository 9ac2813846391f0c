"""Register the metrics of a server's models: totals, and gauges read when Prometheus scrapes."""

from collections.abc import Callable, Sequence
from functools import partial

from embedwell.inference.served_model import ServedModel
from embedwell.metrics.metrics import Metrics

_GAUGES: Sequence[tuple[str, str, Callable[[ServedModel], float]]] = (
    ("queued_tokens", "Tokens admitted and not computed yet.", lambda m: m.admission.queued_tokens),
    (
        "wait_seconds",
        "Expected time to compute the whole queue.",
        lambda m: m.admission.backlog_seconds,
    ),
    (
        "tokens_per_second",
        "Tokens per second of the engine under full load.",
        lambda m: m.engine.rate.latest,
    ),
    (
        "ready",
        "1 if the engine computes and responds, or is unloaded and loads on demand, else 0.",
        lambda m: m.ready_or_idle,
    ),
    ("loaded", "1 if an engine has loaded the model, else 0.", lambda m: m.engine.connected),
    ("engine_restarts", "Restarts of the engine.", lambda m: m.engine.restarts),
)
_COUNTERS: Sequence[tuple[str, str, Callable[[ServedModel], float]]] = (
    (
        "replayed_requests",
        "Jobs computed again because the engine died.",
        lambda m: m.replay.replayed_jobs,
    ),
    (
        "quarantined_inputs",
        "Texts quarantined because they crashed the engine.",
        lambda m: m.replay.quarantined_texts,
    ),
)


def build_metrics(models: Sequence[ServedModel]) -> Metrics:
    """Build the metrics of a server.

    models: all of its models; the counters of the first one count paths.
    """
    counters = {model.name: model.engine.counters for model in models}
    metrics = Metrics(models[0].engine.counters, counters)
    for name, text, read in _GAUGES:
        metrics.register_gauge(name, text, [partial(read, model) for model in models])
    for name, text, read in _COUNTERS:
        metrics.register_counter(name, text, [partial(read, model) for model in models])
    return metrics
