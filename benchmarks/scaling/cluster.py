"""Simulation of a cluster: requests, servers with queues, and Kubernetes' horizontal autoscaler.

https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale/#algorithm-details
"""

import heapq
import math
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

_TOLERANCE = 0.1  # tolerance of a metric, within which nothing changes
_SCRAPE = 15.0  # seconds between the values of metrics that a decision may see
_RATE_WINDOW = 60.0  # seconds of tokens that the utilization is of


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


@dataclass(frozen=True)
class ServerModel:
    """Measured properties of a server.

    tokens_per_second: that it computes. start: seconds from the decision to add it until it gets
    requests. max_wait: seconds of queued work at which it refuses a request.
    """

    tokens_per_second: float
    start: float
    max_wait: float = 2.0


@dataclass(frozen=True)
class Load:
    """Requests at random moments. rate: time -> requests per second. tokens: of requests."""

    rate: Callable[[float], float]
    tokens: Sequence[int]
    seconds: float

    def arrivals(self, dice: random.Random) -> Iterator[tuple[float, int]]:
        """Yield time and tokens of each request."""
        time = 0.0
        for number in range(10**9):
            time += dice.expovariate(self.rate(time))
            if time >= self.seconds:
                return
            yield time, self.tokens[number % len(self.tokens)]


@dataclass
class Window:
    """Requests within some seconds. latencies: of answered requests. servers: ready servers."""

    start: float
    servers: int
    wanted: int
    latencies: list[float] = field(default_factory=list)
    refused: int = 0

    def percentile(self, share: float) -> float:
        """Return a percentile of the seconds of requests; refused requests take infinite time."""
        times = [*sorted(self.latencies), *[math.inf] * self.refused]
        return times[min(len(times) - 1, int(share * len(times)))] if times else 0.0


class _Cluster:
    """Servers by the time at which the work that each has queued is done."""

    def __init__(self, model: ServerModel, servers: int) -> None:
        self._model = model
        self.ready = [0.0] * servers  # a heap: the server with the least work first
        self.starting: list[float] = []  # when each is ready
        self._recent: deque[tuple[float, int]] = deque()  # time and tokens of each request
        self._recent_tokens = 0

    @property
    def size(self) -> int:
        return len(self.ready) + len(self.starting)

    def receive(self, now: float, tokens: int) -> float | None:
        """Return the seconds until a request is answered; None if it is refused."""
        done = self.ready[0]
        if done - now > self._model.max_wait:
            return None
        done = max(done, now) + tokens / self._model.tokens_per_second
        heapq.heapreplace(self.ready, done)
        self._recent.append((now, tokens))
        self._recent_tokens += tokens
        return done - now

    def start_ready(self, now: float) -> None:
        """Give requests to the servers that are ready by now."""
        while self.starting and self.starting[0] <= now:  # in the order of their starts
            self.starting.pop(0)
            heapq.heappush(self.ready, now)

    def resize(self, now: float, servers: int) -> None:
        """Start servers, or stop those with the least work."""
        self.starting += [now + self._model.start] * (servers - self.size)
        for _ in range(self.size - servers):
            if self.starting:
                self.starting.pop()
            else:
                heapq.heappop(self.ready)

    def metrics(self, now: float) -> tuple[float, float]:
        """Return sums over the servers: seconds of queued work, and used shares of their speed."""
        while self._recent and self._recent[0][0] <= now - _RATE_WINDOW:
            self._recent_tokens -= self._recent.popleft()[1]
        rate = self._recent_tokens / (min(_RATE_WINDOW, now) or 1.0)
        wait = sum(max(0.0, done - now) for done in self.ready)
        return wait, rate / self._model.tokens_per_second


def simulate(
    load: Load, model: ServerModel, rule: Rule, window: float = 15.0, seed: int = 0
) -> list[Window]:
    """Run a load against a cluster; return the results window by window."""
    cluster, scaler = _Cluster(model, rule.min_servers), Autoscaler(rule)
    windows = [Window(0.0, rule.min_servers, rule.min_servers)]
    seen, next_scrape, next_decision = (0.0, 0.0), _SCRAPE, rule.interval
    for now, tokens in load.arrivals(random.Random(seed)):
        cluster.start_ready(now)
        while now >= next_scrape or now >= next_decision:
            if next_scrape <= next_decision:
                seen, next_scrape = cluster.metrics(next_scrape), next_scrape + _SCRAPE
            else:
                cluster.resize(next_decision, scaler.decide(next_decision, cluster.size, *seen))
                next_decision += rule.interval
        while now >= windows[-1].start + window:
            start = windows[-1].start + window
            windows.append(Window(start, len(cluster.ready), cluster.size))
        latency = cluster.receive(now, tokens)
        if latency is None:
            windows[-1].refused += 1
        else:
            windows[-1].latencies.append(latency)
    return windows
