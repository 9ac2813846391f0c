"""Compare this project's engine with other engines on the same token ids, in turn in one run."""

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from benchmarks import contest, engine_report, machine, options, roofline
from benchmarks.contestants import ALL, REFERENCE
from benchmarks.fidelity import fidelity
from benchmarks.peers.protocol import Job
from benchmarks.workloads import Workload, calibration, workloads
from embedwell_models.cpu_backend import library
from embedwell_models.hub.sources import resolve
from embedwell_models.model_description import ModelDescription

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
    results: dict[str, Any] = {
        "machine": machine.describe(),
        "model": folder.name,
        "threads": args.threads,
        "rounds": args.rounds,
        "seed": args.seed,
        "quick": args.quick,
        "isa": args.isa,
        "gflops": roofline.peaks(args.threads),
        "mflop_per_token": roofline.flop_per_token(folder) / 1e6,
        "workloads": {one.name: one.describe() for one in work},
    }
    job = Job(str(folder), str(args.home), "", args.threads, held_out, isa=args.isa)
    results["engines"] = compare(args, job, work)
    return results


def compare(args: argparse.Namespace, job: Job, work: Sequence[Workload]) -> dict[str, Any]:
    """Return settings, fidelity and seconds of each contestant."""
    able = [one for one in ALL if one.head in (None, job.head)]
    chosen = [one for one in able if one is REFERENCE or options.wanted(one.name, args.only)]
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


def main() -> None:
    parser = options.parser(__doc__, "engines")
    parser.add_argument("--quick", action="store_true", help="a quarter of the texts")
    parser.add_argument("--isa", default="auto", choices=library.CAPS, help=_ISA)
    options.main(parser, run, engine_report.report)


if __name__ == "__main__":
    main()
