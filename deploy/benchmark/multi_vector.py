"""Vectors of tokens by this engine and by sentence-transformers, in turn: passages per second.

The default model's encoder with a random projection to 128 dimensions, as ColBERT has it; passages
of Python's manual, in groups of 32, and queries of a few words that are expanded to 32 tokens.
"""

import json
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import MultiVectorEncoder

from deploy.loadtest.corpus import Corpus
from models import Embedder
from models.hub.sources import DEFAULT, resolve
from models.sentence_transformers.multi_vector import TextRole

GROUP = 32
Embed = Callable[[Sequence[str], TextRole], Sequence[Any]]


@click.command()
@click.option("--groups", default=10, help="Each of 32 texts.")
@click.option("--rounds", default=5, help="Each engine once, in turn.")
@click.option("--model", default=DEFAULT, help="A BERT whose encoder is used.")
def main(groups: int, rounds: int, model: str) -> None:
    """Print texts per second, the ratio to sentence-transformers, and cosines to its vectors."""
    corpus = Corpus(random.Random(5))
    texts: dict[TextRole, list[str]] = {
        "document": [corpus.cut(60, 160) for _ in range(groups * GROUP)],
        "query": [corpus.cut(4, 8) for _ in range(groups * GROUP)],
    }
    with tempfile.TemporaryDirectory() as folder:
        write_colbert(resolve(model), Path(folder))
        engines = build_engines(folder)
        for role, inputs in texts.items():
            compare(engines, role, inputs, rounds)


def write_colbert(source: Path, folder: Path) -> None:
    """Save the encoder of a BERT with a projection of random weights, as Stanford does."""
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"):
        if (source / name).exists():
            shutil.copy(source / name, folder)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    config |= {"architectures": ["HF_ColBERT"]}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    metadata = {"query_maxlen": 32, "doc_maxlen": 300}
    (folder / "artifact.metadata").write_text(json.dumps(metadata), encoding="utf-8")
    noise = torch.Generator().manual_seed(7)
    tensors = load_file(source / "model.safetensors")
    save_file(
        {
            **{f"bert.{name}": tensor for name, tensor in tensors.items()},
            "linear.weight": torch.randn(128, config["hidden_size"], generator=noise) * 0.05,
        },
        folder / "model.safetensors",
        {"format": "pt"},
    )


def build_engines(folder: str) -> dict[str, Embed]:
    """sentence-transformers on torch, then this engine in every precision of this processor."""
    theirs = MultiVectorEncoder(folder, device="cpu")
    engines: dict[str, Embed] = {"sentence-transformers float32": partial(_encode, theirs)}
    auto = Embedder.load(folder, dtype="auto", device="cpu")
    click.echo(f"auto: {auto.dtype}, of {auto.trials}")
    for dtype in dict.fromkeys(["float32", *(trial.dtype for trial in auto.trials)]):
        engines[f"this engine {dtype}"] = Embedder.load(
            folder, dtype=dtype, device="cpu"
        ).embed_tokens
    return engines


def _encode(model: Any, texts: Sequence[str], role: TextRole) -> Sequence[Any]:
    encode = model.encode_query if role == "query" else model.encode_document
    vectors: Sequence[Any] = encode(list(texts), batch_size=GROUP, convert_to_numpy=True)
    return vectors


def compare(engines: dict[str, Embed], role: TextRole, texts: Sequence[str], rounds: int) -> None:
    """Time the engines in turn, and print a line for each."""
    vectors = {name: np.concatenate(embed(texts, role)) for name, embed in engines.items()}
    seconds = {name: list[float]() for name in engines}
    for _ in range(rounds):
        for name, embed in engines.items():
            start = time.perf_counter()
            for first in range(0, len(texts), GROUP):
                embed(texts[first : first + GROUP], role)
            seconds[name].append(time.perf_counter() - start)
    reference, *_ = engines
    for name, times in seconds.items():
        ratios = [a / b for a, b in zip(seconds[reference], times, strict=True)]
        cosines = np.vecdot(vectors[name], vectors[reference])
        click.echo(
            f"{role:8} {name:30} {len(texts) / median(times):7.0f} texts/s"
            f"  ratio {median(ratios):5.2f}"
            f"  cosine at least {cosines.min():.5f}, in the mean {cosines.mean():.5f}"
        )


if __name__ == "__main__":
    main()
