"""Reranking by this engine and by sentence-transformers, in turn: passages per second.

The default model's encoder with a random head, as a reranker of this size has it; queries of a few
words, each with 32 passages of Python's manual.
"""

import json
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder

from deploy.loadtest.corpus import Corpus
from models import Embedder
from models.hub.sources import DEFAULT, resolve

PASSAGES = 32
Score = Callable[[Sequence[tuple[str, str]]], Any]


@click.command()
@click.option("--queries", default=10, help="Each with 32 passages.")
@click.option("--rounds", default=5, help="Each engine once, in turn.")
@click.option("--model", default=DEFAULT, help="A BERT whose encoder is used.")
def main(queries: int, rounds: int, model: str) -> None:
    """Print passages per second, the ratio to sentence-transformers, and the largest difference."""
    pairs = build_pairs(queries)
    with tempfile.TemporaryDirectory() as folder:
        write_reranker(resolve(model), Path(folder))
        engines = build_engines(folder)
        expected, seconds = {}, {name: list[float]() for name in engines}
        for name, score in engines.items():
            expected[name] = np.ravel(score(pairs))
        for _ in range(rounds):
            for name, score in engines.items():
                start = time.perf_counter()
                for query in range(queries):
                    score(pairs[query * PASSAGES : (query + 1) * PASSAGES])
                seconds[name].append(time.perf_counter() - start)
    report(expected, seconds, len(pairs))


def build_pairs(queries: int) -> list[tuple[str, str]]:
    """Queries of 4 to 8 words, with passages of 60 to 160 words."""
    corpus = Corpus(random.Random(5))
    texts = [corpus.cut(4, 8) for _ in range(queries)]
    return [(query, corpus.cut(60, 160)) for query in texts for _ in range(PASSAGES)]


def write_reranker(source: Path, folder: Path) -> None:
    """Save the encoder of a BERT with a pooler and one label of random weights."""
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        if (source / name).exists():
            shutil.copy(source / name, folder)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    config |= {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "relevance"}}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    noise, width = torch.Generator().manual_seed(7), config["hidden_size"]
    tensors = load_file(source / "model.safetensors")
    save_file(
        {
            **{f"bert.{name}": tensor for name, tensor in tensors.items() if "pooler" not in name},
            "bert.pooler.dense.weight": torch.randn(width, width, generator=noise) * 0.05,
            "bert.pooler.dense.bias": torch.zeros(width),
            "classifier.weight": torch.randn(1, width, generator=noise) * 0.2,
            "classifier.bias": torch.zeros(1),
        },
        folder / "model.safetensors",
        {"format": "pt"},
    )


def build_engines(folder: str) -> dict[str, Score]:
    """sentence-transformers on torch, then this engine in every precision of this processor."""
    theirs = CrossEncoder(folder, device="cpu", activation_fn=torch.nn.Identity())
    engines: dict[str, Score] = {
        "sentence-transformers float32": lambda pairs: theirs.predict(list(pairs), batch_size=32)
    }
    auto = Embedder.load(folder, dtype="auto", device="cpu")
    for dtype in dict.fromkeys(["float32", *(trial.dtype for trial in auto.trials)]):
        ours = Embedder.load(folder, dtype=dtype, device="cpu")
        engines[f"this engine {dtype}"] = ours.score
    return engines


def report(logits: dict[str, Any], seconds: dict[str, list[float]], num_passages: int) -> None:
    """Print a line for each engine."""
    reference, *_ = logits
    spread = np.ptp(logits[reference])
    for name, times in seconds.items():
        ratios = [a / b for a, b in zip(seconds[reference], times, strict=True)]
        difference = abs(logits[name] - logits[reference]).max()
        click.echo(
            f"{name:30} {num_passages / median(times):7.0f} passages/s  ratio {median(ratios):5.2f}"
            f"  largest difference {difference:.1e} (logits span {spread:.2f})"
        )


if __name__ == "__main__":
    main()
