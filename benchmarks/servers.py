"""Compare this project's server with other servers under the same load, one at a time in rounds.

A server is started for its turn and stopped after it, because idle servers would disturb the
numbers: some poll, and others watch their processes by the clock. The spread includes differences
between starts.
"""

import argparse
import os
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx

from benchmarks import load, machine, script
from benchmarks.contest import fidelity, note
from benchmarks.environments import Unavailable
from benchmarks.peers.protocol import Floats
from benchmarks.script import spread, summary, table
from benchmarks.serving import (
    PEERS,
    REFERENCE,
    Elsewhere,
    Server,
    drain,
    ours,
    text_embeddings_inference,
    vectors,
)
from embedwell_models.hub.sources import resolve

_WARM = 2  # seconds of a load before the timing
_CHECKED = 64  # texts whose vectors are compared

Rounds = dict[str, dict[str, list[dict[str, Any]]]]  # server -> load -> results of the rounds


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the comparison; return the results for the file."""
    load.require()
    every = everyone(args)
    names = script.choose((one.name for one in every), args.only)
    servers = [one for one in every if one.name in names]
    results: dict[str, Any] = {
        "machine": machine.describe(),
        "model": resolve(args.model).name,
        "threads": args.threads,
        "rounds": args.rounds,
        "seconds": args.seconds,
        "seed": args.seed,
        "peers": [one.name for one in peers(args)],
    }
    rounds: Rounds = {}
    answers: dict[str, Floats] = {}
    for number in range(args.rounds):
        first = number % max(1, len(servers))
        for server in [*servers[first:], *servers[:first]]:
            note(f"round {number + 1} of {args.rounds}: {server.name}")
            try:
                turn(args, server, number, rounds, answers)
            except (Unavailable, httpx.HTTPError, subprocess.CalledProcessError) as reason:
                note(f"skipped: {server.name}: {reason}")
                servers.remove(server)
    results["servers"] = rounds
    results["fidelity"] = _fidelity(answers)
    return results


def everyone(args: argparse.Namespace) -> list[Server | Elsewhere]:
    """Return the peers, and our server in some precisions."""
    return [*peers(args), *(ours(dtype) for dtype in args.dtype or ("auto", "float32"))]


def peers(args: argparse.Namespace) -> list[Server | Elsewhere]:
    """Return peers from pip, text-embeddings-inference if present, and servers elsewhere."""
    here = [text_embeddings_inference(args.tei)] if args.tei else []
    return [*PEERS, *here, *args.at]


def turn(
    args: argparse.Namespace,
    server: Server | Elsewhere,
    number: int,
    rounds: Rounds,
    answers: dict[str, Floats],
) -> None:
    """Run all loads on one server; every round has different texts."""
    seed = args.seed + number
    with (
        tempfile.TemporaryDirectory() as name,
        server.run(resolve(args.model), args.home, args.threads) as url,
    ):
        answers[server.name] = vectors(url, load.texts("short", _CHECKED, args.seed))
        bodies = load.write(Path(name), server.extra, seed)
        for one in load.LOADS:
            load.send(url, one, bodies, _WARM)
            drain(url)
            measured = load.send(url, one, bodies, args.seconds)
            drain(url)
            rounds.setdefault(server.name, {}).setdefault(one.name, []).append(measured)


def _fidelity(answers: Mapping[str, Floats]) -> dict[str, Any]:
    if REFERENCE.name not in answers:
        return {}
    wanted = {"short": answers[REFERENCE.name]}
    return {name: asdict(fidelity({"short": vectors}, wanted)) for name, vectors in answers.items()}


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
            _fidelity_table(results),
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


def _fidelity_table(results: Mapping[str, Any]) -> str:
    rows = [
        [name, f"{of['min_cosine']:.6f}", f"{of['mean_cosine']:.6f}", f"{of['max_difference']:.1e}"]
        for name, of in results["fidelity"].items()
    ]
    header = ["", "min cosine", "mean cosine", "max difference"]
    return table("vectors against sentence-transformers in float32", header, rows)


def main() -> None:
    parser = script.parser(__doc__, "servers")
    add = parser.add_argument
    add("--dtype", action="append", default=[], help="of this server; default: auto, float32")
    add(
        "--tei",
        type=Path,
        default=os.environ.get("BENCH_TEI"),
        metavar="PROGRAM",
        help="path of a text-embeddings-router; also BENCH_TEI",
    )
    add(
        "--at",
        action="append",
        default=[],
        type=Elsewhere.parse,
        metavar="NAME=URL",
        help="a server that runs already; repeatedly for several",
    )
    add("--seconds", type=int, default=8, help="of each load in each round")
    script.main(parser, run, report)


if __name__ == "__main__":
    main()
