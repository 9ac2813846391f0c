"""Report of the comparison of engines, as text tables."""

from collections.abc import Mapping
from typing import Any

from benchmarks import machine
from benchmarks.tables import spread, summary, table


def report(results: Mapping[str, Any]) -> str:
    """Return all tables."""
    work = results["workloads"]
    classes = [name for name, about in work.items() if about["throughput"]]
    others = [name for name in work if name not in classes]
    return "\n".join(
        [
            machine.line(results["machine"]),
            f"{results['model']}, {results['threads']} threads, {results['rounds']} rounds; "
            "median of the rounds (lowest-highest)",
            _throughput(results, classes, "tokens"),
            _throughput(results, classes, "texts"),
            _latency(results, others),
            _fidelity(results),
            _roofline(results, classes),
        ]
    )


def rates(
    results: Mapping[str, Any], engine: Mapping[str, Any], name: str, unit: str
) -> list[float]:
    """Return tokens or texts per second of a workload in each round."""
    count = results["workloads"][name][unit]
    return [count / seconds for seconds in engine["seconds"][name]]


def _throughput(results: Mapping[str, Any], classes: list[str], unit: str) -> str:
    rows = [
        [name, *(spread(summary(rates(results, engine, one, unit))) for one in classes)]
        for name, engine in results["engines"].items()
    ]
    return table(f"{unit} per second", ["", *classes], rows)


def _latency(results: Mapping[str, Any], names: list[str]) -> str:
    rows = [
        [name, *(spread(summary(engine["seconds"][one]), 2, 1000) for one in names)]
        for name, engine in results["engines"].items()
    ]
    return table("p50 in milliseconds: a query of 12 tokens, short texts", ["", *names], rows)


def _fidelity(results: Mapping[str, Any]) -> str:
    rows = [
        [
            name,
            f"{engine['fidelity']['min_cosine']:.6f}",
            f"{engine['fidelity']['mean_cosine']:.6f}",
            f"{engine['fidelity']['max_difference']:.1e}",
        ]
        for name, engine in results["engines"].items()
    ]
    header = ["", "min cosine", "mean cosine", "max difference"]
    return table("vectors against sentence-transformers in float32", header, rows)


def _roofline(results: Mapping[str, Any], classes: list[str]) -> str:
    rows = []
    for name, engine in results["engines"].items():
        peak = results["gflops"][engine["precision"].split()[0]]
        if peak is None:
            continue
        most = peak * 1000 / results["mflop_per_token"]
        shares = (
            f"{summary(rates(results, engine, one, 'tokens'))['median'] / most:.0%}"
            for one in classes
        )
        rows.append([name, f"{peak:.0f}", f"{most:.0f}", *shares])
    title = "share of what the linear layers alone would take at the peak of large products"
    return table(title, ["", "peak GFLOP/s", "tokens/s", *classes], rows)
