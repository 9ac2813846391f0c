"""Choose the number of replicas of a Ray Serve deployment by their load."""

import math
import time
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

WAIT, UTILIZATION = "wait_seconds", "utilization"
"""Metrics that each replica reports: seconds of queued work, and the used share of its speed."""


class LoadMeter:
    """Reads the load of a server from its metrics. clock: returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tokens, self._at = 0.0, clock()

    def read(self, metrics: str) -> Mapping[str, float]:
        """The load since the last call. metrics: of GET /metrics."""
        families = [*text_string_to_metric_families(metrics)]

        def values(name: str) -> list[float]:
            samples = chain.from_iterable(family.samples for family in families)
            return [sample.value for sample in samples if sample.name == f"embedding_{name}"]

        tokens, now = sum(values("tokens_total")), self._clock()
        rate = (tokens - self._tokens) / max(now - self._at, 1e-9)
        self._tokens, self._at = tokens, now
        speed = max(values("tokens_per_second"), default=0)
        return {
            WAIT: max(values("wait_seconds"), default=0.0),
            UTILIZATION: rate / speed if speed else 0.0,
        }


class LoadPolicy:
    """A policy of Ray Serve: as many replicas as the wait and the utilization need.

    The triggers of the Helm chart. wait: seconds of queued work for each replica; utilization: the
    share of its speed.
    """

    def __init__(self, wait: float, utilization: float) -> None:
        self._targets = {WAIT: wait, UTILIZATION: utilization}

    def __call__(self, context: Any) -> tuple[int, dict[str, Any]]:
        """The number of replicas, and the state of the policy, which is empty."""
        loads = context.aggregated_metrics or {}
        wanted = [
            math.ceil(sum(loads.get(name, {}).values()) / target)
            for name, target in self._targets.items()
        ]
        low, high = (
            context.capacity_adjusted_min_replicas,
            context.capacity_adjusted_max_replicas,
        )
        return min(max(low, *wanted), high), {}
