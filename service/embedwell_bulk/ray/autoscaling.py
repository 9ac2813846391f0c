"""Choose the number of replicas of a Ray Serve deployment by their load.

Serve's controller imports this module, so that it does not load the server.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

WAIT, UTILIZATION = "wait_seconds", "utilization"
"""Metrics of each replica: seconds of queued work, and the used share of its speed."""

_MEAN_SECONDS = 60.0  # as in the Helm chart; a long request counts all its tokens at its end
_KEEP_SECONDS = 300.0


class LoadMeter:
    """Reads the load of a server from its metrics.

    clock: returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._totals = deque([(clock(), 0.0)])  # times with the token counts that were read then

    def read(self, metrics: str) -> Mapping[str, float]:
        """Return the wait, and the mean utilization of a minute.

        metrics: response of GET /metrics.
        """
        families = [*text_string_to_metric_families(metrics)]

        def values(name: str) -> list[float]:
            samples = chain.from_iterable(family.samples for family in families)
            return [sample.value for sample in samples if sample.name == f"embedwell_{name}"]

        now, tokens = self._clock(), sum(values("tokens_total"))
        self._totals.append((now, tokens))
        while len(self._totals) > 2 and self._totals[1][0] <= now - _MEAN_SECONDS:
            self._totals.popleft()
        since, before = self._totals[0]
        rate = (tokens - before) / max(now - since, _MEAN_SECONDS)
        speed = max(values("tokens_per_second"), default=0)
        return {
            WAIT: max(values("wait_seconds"), default=0.0),
            UTILIZATION: rate / speed if speed else 0.0,
        }


class LoadPolicy:
    """A policy of Ray Serve: as many replicas as the wait and the utilization need.

    It has the triggers of the Helm chart. Replicas that were needed in the last five minutes are
    kept.

    wait: seconds of queued work for each replica.
    utilization: share of the speed of each replica.
    """

    def __init__(
        self, wait: float, utilization: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """clock: returns seconds."""
        self._targets, self._clock = {WAIT: wait, UTILIZATION: utilization}, clock
        self._needed: deque[tuple[float, int]] = deque()  # with their times

    def __call__(self, context: Any) -> tuple[int, dict[str, Any]]:
        """Return the number of replicas, and the state of the policy, which is empty."""
        now = self._clock()
        self._needed.append((now, self._needed_now(context.aggregated_metrics or {})))
        while self._needed[0][0] < now - _KEEP_SECONDS:
            self._needed.popleft()
        needed = max(count for _, count in self._needed)
        least, most = context.capacity_adjusted_min_replicas, context.capacity_adjusted_max_replicas
        return min(max(least, needed), most), {}

    def _needed_now(self, loads: Mapping[str, Mapping[Any, float]]) -> int:
        return max(
            math.ceil(sum(loads.get(name, {}).values()) / target)
            for name, target in self._targets.items()
        )
