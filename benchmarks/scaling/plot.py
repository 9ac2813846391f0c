"""Draw a simulation, with matplotlib (the extra `plot`)."""

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot

from benchmarks.scaling.cluster import Load, Window

_GREY = "#848d97"  # readable on white and on black


def draw(file: Path, load: Load, windows: Sequence[Window], bound: float) -> None:
    """Write the load, the times and the servers by minutes. bound: of p99, in seconds."""
    matplotlib.rcParams["svg.hashsalt"] = "scaling"  # the same names in each run
    minutes = [window.start / 60 for window in windows]
    figure, (rates, times, servers) = pyplot.subplots(
        3, 1, sharex=True, figsize=(8, 7), layout="tight"
    )
    rates.plot(minutes, [load.rate(window.start) for window in windows])
    rates.set_ylabel("requests/s")
    for share, name in ((0.5, "p50"), (0.99, "p99")):
        values = [1000 * window.percentile(share) for window in windows]
        times.plot(minutes, [v if math.isfinite(v) else math.nan for v in values], label=name)
    refused = [1000 * bound if window.refused else math.nan for window in windows]
    times.plot(minutes, refused, "x", color="tab:red", label="some refused")
    times.axhline(1000 * bound, linestyle="--", color=_GREY, linewidth=0.8)
    times.set_yscale("log")
    times.set_ylabel("ms")
    servers.step(minutes, [window.wanted for window in windows], where="post", label="wanted")
    servers.step(minutes, [window.servers for window in windows], where="post", label="ready")
    servers.set_ylabel("servers")
    servers.set_xlabel("minutes")
    for axes in (rates, times, servers):
        axes.set_facecolor("none")
        axes.tick_params(colors=_GREY, which="both")
        for part in (axes.xaxis.label, axes.yaxis.label):
            part.set_color(_GREY)
        for spine in axes.spines.values():
            spine.set_color(_GREY)
    for axes in (times, servers):
        axes.legend(labelcolor=_GREY, framealpha=0)
    figure.savefig(file, transparent=True, metadata={"Date": None})
    pyplot.close(figure)
