"""Benchmark of models with other heads than a vector for each text, made from a BERT."""

import argparse
import json
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from benchmarks import engines, machine
from benchmarks.contest import OURS, Groups
from benchmarks.peers.protocol import Job
from benchmarks.script import spread, summary, table
from benchmarks.workloads import Workload
from deploy.loadtest.corpus import Corpus
from embedwell_models.hub.sources import resolve

GROUP = 32  # texts that are computed together
QUERY, PASSAGE = (4, 8), (60, 160)  # fewest and most words
_CALIBRATION = 100  # texts
_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")

Tensors = dict[str, torch.Tensor]


def write_model(
    args: argparse.Namespace,
    head: str,
    config: Mapping[str, Any],
    tensors: Callable[[int, int, torch.Generator], Tensors],
) -> Path:
    """Save the BERT encoder of the options with a random head; return the folder.

    config: further keys of config.json. tensors: builds the head's tensors from the width and the
    size of the vocabulary.
    """
    source = resolve(args.model)
    folder: Path = args.home / "models" / f"{source.name}-{head}"
    folder.mkdir(parents=True, exist_ok=True)
    for name in _FILES:
        if (source / name).exists():
            shutil.copy(source / name, folder)
    whole = json.loads((source / "config.json").read_text(encoding="utf-8")) | config
    (folder / "config.json").write_text(json.dumps(whole), encoding="utf-8")
    noise = torch.Generator().manual_seed(7)
    encoder = load_file(source / "model.safetensors")
    save_file(
        {f"bert.{name}": tensor for name, tensor in encoder.items() if "pooler" not in name}
        | tensors(whole["hidden_size"], whole["vocab_size"], noise),
        folder / "model.safetensors",
        {"format": "pt"},
    )
    return folder


def corpora(args: argparse.Namespace) -> tuple[Corpus, Corpus]:
    """Return texts for the measurement, and other texts for the calibration."""
    return Corpus(random.Random(args.seed)), Corpus(random.Random(args.seed), held_out=True)


def compare(
    args: argparse.Namespace,
    head: str,
    folder: Path,
    groups: Mapping[str, Groups],
    calibration: Sequence[Sequence[int]],
) -> dict[str, Any]:
    """Compare engines on groups of token ids; return the results. head: one of graph.GRAPHS."""
    work = [
        Workload(name, [[[*row] for row in rows] for rows in each], passes=1, throughput=False)
        for name, each in groups.items()
    ]
    held_out = [[*row] for row in calibration[:_CALIBRATION]]
    job = Job(str(folder), str(args.home), "", args.threads, held_out, head)
    return {
        "machine": machine.describe(),
        "model": folder.name,
        "threads": args.threads,
        "rounds": args.rounds,
        "seed": args.seed,
        "workloads": {one.name: one.describe() for one in work},
        "engines": engines.compare(args, job, work),
    }


def report(results: Mapping[str, Any]) -> str:
    """Return the numbers as a text table."""
    ours = {one.name for one in OURS}
    columns, header = [], [""]
    for name, about in results["workloads"].items():
        size = about["texts"] / about["groups"]
        rates = {
            engine: [size / seconds for seconds in each["seconds"][name]]
            for engine, each in results["engines"].items()
        }
        best = max(summary(each)["median"] for engine, each in rates.items() if engine not in ours)
        header += [f"{name}/s", "to the best peer"]
        columns.append([spread(summary(each), 1) for each in rates.values()])
        columns.append([f"{summary(each)['median'] / best:.2f}" for each in rates.values()])
    columns.append([f"{e['fidelity']['max_difference']:.1e}" for e in results["engines"].values()])
    model, threads, rounds = (results[name] for name in ("model", "threads", "rounds"))
    title = f"{model}, {threads} threads, {rounds} rounds; median (range)"
    rows = [list(row) for row in zip(results["engines"], *columns, strict=True)]
    return "\n".join(
        [machine.line(results["machine"]), table(title, [*header, "largest difference"], rows)]
    )
