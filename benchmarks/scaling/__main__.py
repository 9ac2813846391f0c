"""Simulate the autoscaling of deploy/helm: `python -m benchmarks.scaling --help`.

Times of requests come from one server's measured speed; nothing is sent.
"""

import argparse
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.scaling.cluster import Load, Rule, ServerModel, Window, simulate
from deploy.loadtest.loadtest import KINDS

_WEIGHTS = {"query": 70, "passage": 25, "document": 5}  # of the load test's texts
_TOKENS_PER_WORD = 1.6  # of its texts, by the tokenizer of all-MiniLM-L6-v2
_REQUESTS = 5000  # of which the load repeats the tokens
_BEFORE, _HIGH, _AFTER = 300.0, 1200.0, 900.0  # seconds
_BUSY = 0.5  # of the first servers, before the load rises

_GREY = "#848d97"  # readable on white and on black


@dataclass(frozen=True)
class Outcome:
    """Result of a rule for a load. seconds: total time with a p99 over the bound.

    recovered: seconds from the rise until p99 is under the bound for two minutes. refused: share of
    all requests. servers: the mean.
    """

    seconds: float
    recovered: float
    refused: float
    servers: float


def load(model: ServerModel, rule: Rule, factor: float, rise: float, max_tokens: int) -> Load:
    """Return a load that keeps the first servers half busy, rises by a factor, and falls back."""
    dice = random.Random(0)
    kinds = dice.choices([*_WEIGHTS], [*_WEIGHTS.values()], k=_REQUESTS)
    words = [dice.randint(*KINDS[kind]) for kind in kinds]
    tokens = [min(max_tokens, int(_TOKENS_PER_WORD * count) + 2) for count in words]
    base = _BUSY * rule.min_servers * model.tokens_per_second * _REQUESTS / sum(tokens)
    end = _BEFORE + rise + _HIGH

    def rate(time: float) -> float:
        if not _BEFORE <= time < end:
            return base
        share = min(1.0, (time - _BEFORE) / rise) if rise else 1.0
        return base * (1 + (factor - 1) * share)

    return Load(rate, tokens, end + _AFTER)


def outcome(windows: Sequence[Window], bound: float) -> Outcome:
    """Sum up a simulation. bound: of p99, in seconds."""
    length = windows[1].start
    over = [window.percentile(0.99) > bound for window in windows]
    first = int(_BEFORE / length)
    calm = int(120 / length)
    starts = range(first, len(windows))
    recovered = next((i for i in starts if not any(over[i : i + calm])), len(windows))
    answered = sum(len(window.latencies) for window in windows)
    refused = sum(window.refused for window in windows)
    return Outcome(
        seconds=sum(over) * length,
        recovered=(recovered - first) * length,
        refused=refused / (answered + refused),
        servers=sum(window.wanted for window in windows) / len(windows),
    )


def table(rows: Sequence[tuple[str, Outcome]]) -> str:
    """Return a Markdown table of the outcomes of rules."""
    lines = [
        "| rule | p99 holds again after | p99 over the bound | refused | servers, mean |",
        "|---|---|---|---|---|",
    ]
    for name, result in rows:
        recovered = f"{result.recovered:.0f} s" if result.recovered else "at once"
        lines.append(
            f"| {name} | {recovered} | {result.seconds:.0f} s | {result.refused:.2%} "
            f"| {result.servers:.1f} |"
        )
    return "\n".join(lines)


def draw(file: Path, load: Load, windows: Sequence[Window], bound: float) -> None:
    """Write the load, the times and the servers by minutes. bound: of p99, in seconds."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

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


def main() -> None:
    """Print the outcome of each rule and draw the last one."""
    defaults = Rule()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    add = parser.add_argument
    add("--tokens-per-second", type=float, default=16_000, help="of a server, as /metrics says")
    add("--max-tokens", type=int, default=256, help="that the model reads of a text")
    add("--start", type=float, default=30, help="seconds until a new server gets requests")
    add("--factor", type=float, default=10, help="by which the load rises")
    add("--rise", type=float, default=0, help="seconds in which it rises")
    add("--bound", type=float, default=0.5, help="of p99, in seconds")
    add("--min-servers", type=int, default=defaults.min_servers)
    add("--max-servers", type=int, default=defaults.max_servers)
    add("--wait", type=float, default=defaults.wait, help="autoscaling.waitSeconds")
    add("--utilization", type=float, default=defaults.utilization, help="autoscaling.utilization")
    add("--plot", type=Path, metavar="FILE.svg", help="draw the last rule (matplotlib)")
    options = parser.parse_args()
    model = ServerModel(options.tokens_per_second, options.start)
    servers = {"min_servers": options.min_servers, "max_servers": options.max_servers}
    rules = {
        "the wait alone": Rule(**servers, wait=options.wait, utilization=None),
        "the utilization alone": Rule(**servers, wait=None, utilization=options.utilization),
        "both": Rule(**servers, wait=options.wait, utilization=options.utilization),
    }
    rows = []
    for name, rule in rules.items():
        requests = load(model, rule, options.factor, options.rise, options.max_tokens)
        windows = simulate(requests, model, rule)
        rows.append((name, outcome(windows, options.bound)))
    print(table(rows))
    if options.plot:
        draw(options.plot, requests, windows, options.bound)


if __name__ == "__main__":
    main()
