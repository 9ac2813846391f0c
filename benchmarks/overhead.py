"""What this server adds to its engine: the same texts through the server, and through the engine
alone in a process of its own, in turn.

The client and the server share the cores that the engine alone has to itself.
"""

import argparse
import operator
import statistics
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from benchmarks import load, machine, script
from benchmarks.contest import Groups, Worker
from benchmarks.load import Load
from benchmarks.peers.protocol import Job
from benchmarks.script import spread, summary, table
from benchmarks.serving import drain, ours, running
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.hub.sources import resolve

_BUSY = {Load("short", 128): 1024, Load("passage", 32): 128}  # texts that the engine is given
_ALONE = {Load("short", 1): 256, Load("passage", 1): 64}  # texts that it gets one at a time
_WARM = 2  # seconds of a load before the timing

Rounds = dict[str, dict[str, list[float]]]  # load -> 'engine' or 'server' -> values


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the comparison; return the results for the file."""
    load.require()
    folder = resolve(args.model)
    with (
        tempfile.TemporaryDirectory() as name,
        (args.home / "overhead.log").open("w") as log,
        running(ours(args.dtype), folder, args.home, args.threads) as url,
    ):
        dtype = _chosen(url)
        job = Job(str(folder), str(args.home), dtype, args.threads, [])
        worker = Worker(Path(sys.executable), "ours", job, log)
        try:
            for one, groups in _work(folder, args.seed).items():
                worker.prepare(one.name, groups)
            bodies = load.write(Path(name), {}, args.seed)
            rounds = [_round(worker, url, bodies, args.seconds) for _ in range(args.rounds)]
        finally:
            worker.stop()
    return {
        "machine": machine.describe(),
        "model": folder.name,
        "threads": args.threads,
        "dtype": dtype,
        "seconds": args.seconds,
        "seed": args.seed,
        "texts_per_second": _turned(rounds, _BUSY),
        "p50_ms": _turned(rounds, _ALONE),
    }


def _chosen(url: str) -> str:
    info = httpx.get(url.replace("/v1/embeddings", "/info"), trust_env=False).raise_for_status()
    return str(info.json()["engine"]["dtype"])


def _work(folder: Path, seed: int) -> Mapping[Load, Groups]:
    # All texts at once, like many clients, or one text at a time.
    tokenizer = ModelDescription.read(folder).tokenizer()

    def rows(one: Load, count: int) -> list[list[int]]:
        rows = tokenizer.encode(load.texts(one.kind, count, seed))
        return [[int(number) for number in row.ids] for row in rows]

    busy = {one: [rows(one, count)] for one, count in _BUSY.items()}
    alone = {one: [[row] for row in rows(one, count)] for one, count in _ALONE.items()}
    return {**busy, **alone}


def _round(
    worker: Worker, url: str, bodies: Mapping[Load, Path], seconds: int
) -> dict[Load, dict[str, float]]:
    measured = {}
    for one in [*_BUSY, *_ALONE]:
        alone = statistics.median(worker.run(one.name, 1))
        load.send(url, one, bodies, _WARM)
        drain(url)
        sent = load.send(url, one, bodies, seconds)
        drain(url)
        if one in _BUSY:
            measured[one] = {"engine": _BUSY[one] / alone, "server": sent["requests_per_second"]}
        else:
            measured[one] = {"engine": 1000 * alone, "server": 1000 * sent["p50"]}
    return measured


def _turned(rounds: Sequence[Mapping[Load, dict[str, float]]], loads: Mapping[Load, int]) -> Rounds:
    return {
        one.name: {of: [each[one][of] for each in rounds] for of in ("engine", "server")}
        for one in loads
    }


def report(results: Mapping[str, Any]) -> str:
    """Return the numbers as text tables."""
    busy = [
        [name, _cell(engine), _cell(server), _cell(map(operator.truediv, server, engine), 2)]
        for name, (engine, server) in _pairs(results["texts_per_second"])
    ]
    alone = [
        [name, _cell(engine, 2), _cell(server, 2), _cell(map(operator.sub, server, engine), 2)]
        for name, (engine, server) in _pairs(results["p50_ms"])
    ]
    return "\n".join(
        [
            machine.line(results["machine"]),
            f"{results['model']} in {results['dtype']}, {results['threads']} threads; "
            "median of the rounds (lowest-highest)",
            table("texts per second", ["", "engine alone", "server", "share"], busy),
            table("p50 in milliseconds", ["", "engine alone", "server", "added"], alone),
        ]
    )


def _pairs(loads: Mapping[str, Any]) -> Iterable[tuple[str, tuple[list[float], list[float]]]]:
    return ((name, (of["engine"], of["server"])) for name, of in loads.items())


def _cell(values: Iterable[float], digits: int = 0) -> str:
    return spread(summary(list(values)), digits)


def main() -> None:
    parser = script.parser(__doc__, "overhead")
    add = parser.add_argument
    add("--dtype", default="auto", help="of both")
    add("--seconds", type=int, default=5, help="of each load in each round")
    script.main(parser, run, report)


if __name__ == "__main__":
    main()
