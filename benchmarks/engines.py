"""Compare this project's engine with other engines on the same token ids, in turn in one run."""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import contest, machine, script
from benchmarks.contest import CONTESTANTS, REFERENCE, fidelity
from benchmarks.environments import ROOT
from benchmarks.peers.protocol import Job
from benchmarks.script import spread, summary, table
from benchmarks.workloads import Workload, calibration, workloads
from embedwell_models import families
from embedwell_models.cpu_backend import library
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.hub.sources import resolve

_ISA = "the highest instruction set; onnxruntime and llama.cpp do not follow it"


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the comparison; return the results for the file."""
    library.cap_isa(args.isa)  # workers inherit the variables that limit oneDNN and torch
    folder = resolve(args.model)
    tokenizer = ModelDescription.read(folder).tokenizer()

    def tokenize(texts: Sequence[str]) -> list[list[int]]:
        return [[int(number) for number in row.ids] for row in tokenizer.encode(texts)]

    work = workloads(tokenize, seed=args.seed, quick=args.quick)
    held_out = calibration(tokenize, seed=args.seed)
    job = Job(str(folder), str(args.home), "", args.threads, held_out, isa=args.isa)
    engines = compare(args, job, work)
    return {
        "machine": machine.describe(),
        "model": folder.name,
        "threads": args.threads,
        "rounds": args.rounds,
        "seed": args.seed,
        "quick": args.quick,
        "isa": args.isa,
        "gflops": peaks(args.threads),
        "mflop_per_token": flop_per_token(folder) / 1e6,
        "workloads": {one.name: one.describe() for one in work},
        "engines": engines,
    }


def compare(args: argparse.Namespace, job: Job, work: Sequence[Workload]) -> dict[str, Any]:
    """Return settings, fidelity and seconds of each contestant."""
    able = [one for one in CONTESTANTS if one.head in (None, job.head)]
    names = script.choose((one.name for one in able), args.only)
    chosen = [one for one in able if one is REFERENCE or one.name in names]
    with ExitStack() as stack:
        log = stack.enter_context((args.home / "engines.log").open("w"))
        entries = contest.start(chosen, job, args.home, log, stack)
        if entries[0].contestant is not REFERENCE:
            raise SystemExit("without the reference there is nothing to compare with")
        contest.prepare(entries, work)
        contest.measure(entries, work, args.rounds)
    return {
        entry.contestant.name: {
            "precision": entry.contestant.precision,
            "about": entry.worker.about,
            "settings": entry.settings,
            "fidelity": asdict(fidelity(entry.vectors, entries[0].vectors)),
            "seconds": entry.rounds,
        }
        for entry in entries
    }


def peaks(count: int) -> dict[str, float | None]:
    """Return the machine's rate of matrix products in GFLOP/s, by precision."""
    command = [sys.executable, "-m", "benchmarks.peers.roofline", str(count)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    peaks: dict[str, float | None] = json.loads(done.stdout)
    return peaks


def flop_per_token(folder: Path) -> float:
    """Count the operations of matrix products with weights, which are nearly all of the work."""
    config = families.read(folder).config
    size = config.hidden_size
    weights = 4 * size * size + 2 * size * config.feed_forward.inner
    return 2.0 * config.num_layers * weights


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


def main() -> None:
    parser = script.parser(__doc__, "engines")
    parser.add_argument("--quick", action="store_true", help="a quarter of the texts")
    parser.add_argument("--isa", default="auto", choices=library.CAPS, help=_ISA)
    script.main(parser, run, report)


if __name__ == "__main__":
    main()
