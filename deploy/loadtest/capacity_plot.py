"""Draw the points of a search for capacity, with matplotlib (the extra `plot`)."""

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot

from deploy.loadtest.capacity import Point


def draw(file: Path, points: Sequence[Point], capacity: float, bound: float) -> None:
    """Write throughput, refusals and percentiles by the offered rate, as the file's name says."""
    offered = [each.offered for each in points]
    figure, (rates, times) = pyplot.subplots(2, 1, sharex=True, figsize=(8, 6), layout="tight")
    rates.plot(offered, [each.answered for each in points], "o-", label="answered")
    rates.plot(offered, [each.shed * each.offered for each in points], "x--", label="shed")
    rates.plot(offered, offered, ":", color="grey", label="offered")
    rates.set_ylabel("requests/s")
    for name in ("p50", "p99"):
        values = [getattr(each, name) for each in points]
        times.plot(offered, [v if math.isfinite(v) else math.nan for v in values], "o-", label=name)
    times.axhline(bound, linestyle="--", color="grey", label=f"bound: {bound:g} ms")
    times.set_yscale("log")
    times.set_ylabel("ms")
    times.set_xlabel("offered requests/s")
    for axes in (rates, times):
        axes.axvline(capacity, color="black", linewidth=0.8)
        axes.legend()
    rates.set_title(f"{capacity:.1f} requests/s with a 99th percentile under {bound:g} ms")
    figure.savefig(file)
    pyplot.close(figure)
