"""Search for the highest rate at which the 99th percentile stays under a bound."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from deploy.loadtest.loadtest import Plan, Run

_RATIO = 1.05  # final ratio of the lowest rate above the bound and the highest rate below it
_MAX_RATE = 100_000.0  # requests/s


@dataclass(frozen=True)
class Point:
    """A run at one rate. Rates in requests/s, times in milliseconds.

    p50, p99: of all requests; a response other than 200 counts as infinitely long (None in JSON).
    shed: the share of such responses. lag: 99th percentile of the client's own delay.
    """

    offered: float
    answered: float
    p50: float
    p99: float
    shed: float
    lag: float


def point(plan: Plan, run: Run) -> Point:
    """Sum up a run, without its warm-up."""
    window = [sample for sample in run.samples if sample.scheduled >= plan.warmup]
    seconds = plan.duration - plan.warmup
    good = [sample for sample in window if sample.good]
    times = [sample.total if sample.good else math.inf for sample in window]
    return Point(
        offered=len(window) / seconds,
        answered=len(good) / seconds,
        p50=1000 * _percentile(times, 0.5),
        p99=1000 * _percentile(times, 0.99),
        shed=1 - len(good) / max(1, len(window)),
        lag=1000 * _percentile([sample.lag for sample in window], 0.99),
    )


def find_capacity(
    measure: Callable[[float], Point], bound: float, start: float = 4.0
) -> tuple[float, list[Point]]:
    """Return the highest rate within the bound (0 if there is none) and all points by rate.

    measure: measures a rate. bound: maximum p99 in milliseconds. The rate is doubled or halved from
    `start` until the bound lies between two rates; then bisection brings the two rates together.
    """
    points: dict[float, Point] = {}

    def holds(rate: float) -> bool:
        points[rate] = measure(rate)
        return points[rate].p99 <= bound

    low, high = 0.0, math.inf
    rate = start
    while 0.1 <= rate <= _MAX_RATE and high > low * _RATIO:
        if holds(rate):
            low = rate
        else:
            high = rate
        rate = math.sqrt(low * high) if low and high < math.inf else 2 * low or high / 2
    return low, [points[rate] for rate in sorted(points)]


def as_json(
    plan: Plan, bound: float, capacity: float, points: Sequence[Point], server: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a report that later runs can be compared with. server: properties of the server."""
    settings = {**asdict(plan), "api_key": None, "url": None, "rate": None}
    return {
        "capacity": capacity,
        "bound_ms": bound,
        "plan": settings,
        "server": server,
        "points": [_finite(asdict(each)) for each in points],
    }


def compare(report: Mapping[str, Any], baseline: Mapping[str, Any]) -> str:
    """Compare a capacity with an earlier one; raises ValueError if the reports do not match."""
    different = [name for name in ("bound_ms", "plan") if report[name] != baseline[name]]
    if different:
        raise ValueError(f"the baseline was measured with another {' and '.join(different)}")
    if not baseline["capacity"]:
        return "the baseline held the bound at no rate"
    change = 100 * (report["capacity"] / baseline["capacity"] - 1)
    return f"{change:+.0f} % against {baseline['capacity']:.1f} requests/s"


def table(points: Sequence[Point]) -> str:
    """Return the points as a text table."""
    lines = [f"{'offered/s':>10}{'answered/s':>12}{'p50 ms':>10}{'p99 ms':>10}{'shed':>8}"]
    lines += [
        f"{each.offered:10.1f}{each.answered:12.1f}{each.p50:10.1f}{each.p99:10.1f}{each.shed:8.1%}"
        for each in points
    ]
    return "\n".join(lines)


def _percentile(values: Sequence[float], share: float) -> float:
    """Return a percentile by nearest rank; infinity without values."""
    ordered = sorted(values)
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else math.inf


def _finite(fields: dict[str, float]) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in fields.items()}
