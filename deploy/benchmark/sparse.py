"""Sparse vectors by this engine and by sentence-transformers, in turn: passages per second.

The default model's encoder with its head for masked tokens of random weights, as a SPLADE model of
this size has it.
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
from sentence_transformers import SparseEncoder

from deploy.loadtest.corpus import Corpus
from models import Embedder
from models.hub.sources import DEFAULT, resolve
from models.outputs.names import SPARSE

BUDGET = 2048  # tokens of a pass
Weigh = Callable[[Sequence[str]], Any]


@click.command()
@click.option("--passages", default=128, help="Of 60 to 160 words.")
@click.option("--rounds", default=5, help="Each engine once, in turn.")
@click.option("--model", default=DEFAULT, help="A BERT whose encoder is used.")
def main(passages: int, rounds: int, model: str) -> None:
    """Print passages per second, the ratio to sentence-transformers, and the least cosine to it."""
    corpus = Corpus(random.Random(5))
    texts = sorted((corpus.cut(60, 160) for _ in range(passages)), key=len)
    with tempfile.TemporaryDirectory() as folder:
        write_masked_lm(resolve(model), Path(folder))
        engines = build_engines(folder)
        vectors = {name: weigh(texts) for name, weigh in engines.items()}
        seconds = {name: list[float]() for name in engines}
        for _ in range(rounds):
            for name, weigh in engines.items():
                start = time.perf_counter()
                weigh(texts)
                seconds[name].append(time.perf_counter() - start)
    report(vectors, seconds, len(texts))


def write_masked_lm(source: Path, folder: Path) -> None:
    """Save the encoder of a BERT with a head for masked tokens, whose last matrix is the table."""
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        if (source / name).exists():
            shutil.copy(source / name, folder)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    config |= {"architectures": ["BertForMaskedLM"]}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    noise, width = torch.Generator().manual_seed(7), config["hidden_size"]
    tensors = load_file(source / "model.safetensors")
    head = {
        "transform.dense.weight": torch.randn(width, width, generator=noise) * 0.05,
        "transform.dense.bias": torch.zeros(width),
        "transform.LayerNorm.weight": torch.ones(width),
        "transform.LayerNorm.bias": torch.zeros(width),
        "bias": torch.full((config["vocab_size"],), -4.4),  # about 1 % of the weights are above 0
    }
    save_file(
        {
            **{f"bert.{name}": tensor for name, tensor in tensors.items() if "pooler" not in name},
            **{f"cls.predictions.{name}": tensor for name, tensor in head.items()},
        },
        folder / "model.safetensors",
        {"format": "pt"},
    )


def build_engines(folder: str) -> dict[str, Weigh]:
    """sentence-transformers on torch, then this engine in every precision of this processor."""
    theirs = SparseEncoder(folder, device="cpu")
    engines: dict[str, Weigh] = {
        "sentence-transformers float32": lambda texts: theirs.encode(
            list(texts), batch_size=16, convert_to_sparse_tensor=False
        ).numpy()
    }
    auto = Embedder.load(folder, dtype="auto", device="cpu", pooling="splade")
    for dtype in dict.fromkeys(["float32", *(trial.dtype for trial in auto.trials)]):
        ours = Embedder.load(folder, dtype=dtype, device="cpu", pooling="splade")
        engines[f"this engine {dtype}"] = lambda texts, ours=ours: weigh(ours, texts)  # type: ignore[misc]
    return engines


def weigh(embedder: Embedder, texts: Sequence[str]) -> Any:
    """Weights of the vocabulary of each text, zeros included."""
    rows = np.zeros((len(texts), embedder.dim), dtype=np.float32)
    ids = embedder.tokenize(texts)
    start = tokens = 0
    for index, row in enumerate(ids):
        tokens += len(row)
        if tokens + len(row) > BUDGET or index + 1 == len(ids):
            outputs = embedder.outputs(ids[start : index + 1], [SPARSE])
            for offset, text_outputs in enumerate(outputs, start):
                assert text_outputs.sparse is not None
                rows[offset, text_outputs.sparse.indices] = text_outputs.sparse.weights
            start, tokens = index + 1, 0
    return rows


def report(vectors: dict[str, Any], seconds: dict[str, list[float]], num_passages: int) -> None:
    """Print a line for each engine."""
    reference, *_ = vectors
    expected = vectors[reference]
    for name, times in seconds.items():
        ratios = [a / b for a, b in zip(seconds[reference], times, strict=True)]
        rows = vectors[name]
        lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(expected, axis=1)
        click.echo(
            f"{name:30} {num_passages / median(times):7.1f} passages/s  ratio {median(ratios):5.2f}"
            f"  least cosine {((rows * expected).sum(axis=1) / lengths).min():.7f}"
            f"  {np.count_nonzero(rows, axis=1).mean():.0f} weights"
        )


if __name__ == "__main__":
    main()
