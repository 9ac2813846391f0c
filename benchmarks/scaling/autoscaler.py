"""Simulation of how Kubernetes' horizontal autoscaler decides the number of servers.

https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale/#algorithm-details
"""

import math
from dataclasses import dataclass

_TOLERANCE = 0.1  # tolerance of a metric, within which nothing changes


@dataclass(frozen=True)
class Rule:
    """The autoscaler of deploy/helm. Times are in seconds.

    wait: of queued work, and utilization: of the engine's speed, for each server; None for no such
    trigger. interval: between decisions. up_share, down_share: of the servers that may be added, or
    removed, in so many seconds. down_window: in which no more servers may have been wanted.
    """

    min_servers: int = 2
    max_servers: int = 20
    wait: float | None = 0.5
    utilization: float | None = 0.7
    interval: float = 15
    up_share: float = 9.0
    up_seconds: float = 15
    down_share: float = 0.25
    down_seconds: float = 60
    down_window: float = 300


class Autoscaler:
    """Autoscaler that decides the number of servers from the sums of their metrics."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._wanted: list[tuple[float, int]] = []
        self._servers: list[tuple[float, int]] = []

    def decide(self, now: float, servers: int, wait: float, utilization: float) -> int:
        """Return the number of servers from now on.

        servers: that there are, ready or not. wait, utilization: sums over those that are ready.
        """
        rule = self._rule
        metrics = [(wait, rule.wait), (utilization, rule.utilization)]
        wanted = max(
            _wanted(servers, total, target) for total, target in metrics if target is not None
        )
        wanted = min(max(wanted, rule.min_servers), rule.max_servers)
        self._wanted.append((now, wanted))
        self._servers = self._servers or [(now, servers)]
        decided = self._limited(now, servers, wanted)
        self._servers.append((now, decided))
        return decided

    def _limited(self, now: float, servers: int, wanted: int) -> int:
        """Return the wanted number of servers within the limits of adding and removing."""
        rule = self._rule
        if wanted > servers:
            start = self._before(now - rule.up_seconds)
            return min(wanted, max(servers, math.ceil(start * (1 + rule.up_share))))
        stable = max(n for time, n in self._wanted if time > now - rule.down_window)
        start = self._before(now - rule.down_seconds)
        return max(stable, min(servers, math.floor(start * (1 - rule.down_share))))

    def _before(self, time: float) -> int:
        """Return the number of servers at a time, or at the first decision if that was later."""
        earlier = [n for then, n in self._servers if then <= time]
        return earlier[-1] if earlier else self._servers[0][1]


def _wanted(servers: int, total: float, target: float) -> int:
    near = abs(total / (servers * target) - 1) <= _TOLERANCE
    return servers if near else math.ceil(total / target)
