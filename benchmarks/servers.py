"""Compare this project's server with other servers under the same load, one at a time in rounds.

A server is started for its turn and stopped after it, because idle servers would disturb the
numbers: some poll, and others watch their processes by the clock. The spread includes differences
between starts.
"""

import argparse
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx

from benchmarks import load, machine, options, server_report
from benchmarks.contest import note
from benchmarks.environments import Unavailable
from benchmarks.fidelity import fidelity
from benchmarks.peers.batching import Floats
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
    servers = [one for one in everyone(args) if options.wanted(one.name, args.only)]
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


def main() -> None:
    parser = options.parser(__doc__, "servers")
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
    options.main(parser, run, server_report.report)


if __name__ == "__main__":
    main()
