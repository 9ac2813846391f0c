"""Report of the comparison of servers, as text tables."""

import statistics
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks import machine
from benchmarks.tables import spread, summary, table

Round = Mapping[str, Any]


def report(results: Mapping[str, Any]) -> str:
    """Return all tables."""
    loads = list(next(iter(results["servers"].values()), {}))
    return "\n".join(
        [
            machine.line(results["machine"]),
            f"{results['model']}, {results['threads']} threads, {results['rounds']} rounds of "
            f"{results['seconds']} seconds; median of the rounds (lowest-highest)",
            _table(results, loads, "requests per second", lambda one: one["requests_per_second"]),
            _table(results, loads, "p50 in milliseconds", lambda one: 1000 * one["p50"], 1),
            _table(results, loads, "p99 in milliseconds", lambda one: 1000 * one["p99"], 1),
            _table(results, loads, "errors", lambda one: one["errors"]),
            _table(results, loads, "requests per second of the loads beside", _beside),
            _ratios(results, loads),
            _fidelity(results),
        ]
    )


def ratios(results: Mapping[str, Any], name: str, load: str) -> list[float]:
    """Return the ratio of our requests per second to the best peer's, for each round with both."""
    peers = [
        _rates(results, peer, load)
        for peer in results["peers"]
        if load in results["servers"].get(peer, {})
    ]
    if not peers:
        return []
    best = max(peers, key=statistics.median)
    pairs = zip(_rates(results, name, load), best, strict=False)
    return [ours / theirs for ours, theirs in pairs if theirs]


def _rates(results: Mapping[str, Any], name: str, load: str) -> list[float]:
    return [one["requests_per_second"] for one in results["servers"][name].get(load, [])]


def _beside(one: Round) -> float:
    return float(sum(other["requests_per_second"] for other in one["beside"]))


def _table(
    results: Mapping[str, Any],
    loads: list[str],
    title: str,
    value: Callable[[Round], float],
    digits: int = 0,
) -> str:
    rows = [
        [name, *(_cell([value(one) for one in of.get(load, [])], digits) for load in loads)]
        for name, of in results["servers"].items()
    ]
    return table(title, ["", *loads], rows)


def _cell(values: list[float], digits: int) -> str:
    return spread(summary(values), digits) if values else "-"  # the server failed before


def _ratios(results: Mapping[str, Any], loads: list[str]) -> str:
    rows = []
    for name in results["servers"]:
        values = [ratios(results, name, load) for load in loads]
        if name not in results["peers"] and all(values):
            rows.append([name, *(_cell(each, 2) for each in values)])
    return table("requests per second, to the best peer's of the same round", ["", *loads], rows)


def _fidelity(results: Mapping[str, Any]) -> str:
    rows = [
        [name, f"{of['min_cosine']:.6f}", f"{of['mean_cosine']:.6f}", f"{of['max_difference']:.1e}"]
        for name, of in results["fidelity"].items()
    ]
    header = ["", "min cosine", "mean cosine", "max difference"]
    return table("vectors against sentence-transformers in float32", header, rows)
