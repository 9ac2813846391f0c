"""Trained sentence encoders: what they learn, and that the server reads them."""

import logging
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import nn
from transformers import set_seed

from embedwell_classic.training.corpus import Pairs, open_corpus
from embedwell_classic.training.sentences import (
    INITIALIZATIONS,
    Initialization,
    SentenceTraining,
    initialize,
    new_model,
    train_sentences,
)
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats
from tests.models.classic.training.texts import pairs, texts

SMALL: dict[str, Any] = {
    **{"dimensions": 64, "heads": 2, "layers": 1, "vocabulary": 320, "max_length": 24},
    **{"batch_size": 16, "learning_rate": 2e-3},
}
ROWS, WIDTH, OUTPUTS = 600, 200, 300
# Standard deviations of a table and of a matrix from WIDTH to OUTPUTS.
DEVIATIONS: dict[Initialization, tuple[float, float]] = {
    "normal": (0.02, 0.02),
    "scaled": (1 / math.sqrt(WIDTH), 1 / math.sqrt(WIDTH)),
    "uniform": (0.2 / math.sqrt(12), 0.2 / math.sqrt(12)),
    "xavier": (math.sqrt(2 / (ROWS + WIDTH)), math.sqrt(2 / (OUTPUTS + WIDTH))),
    "he": (math.sqrt(2 / WIDTH), math.sqrt(2 / WIDTH)),
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Compute in one thread, because several threads would wait for each other at small steps."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def write_pairs(path: Path, count: int) -> Path:
    path.write_text("\n".join(map("\t".join, pairs(count))), encoding="utf-8")
    return path


def trained(source: Path, name: str = "model", **options: Any) -> Path:
    folder = source.parent / name
    folder.mkdir()
    with open_corpus(source) as corpus:
        train_sentences(Pairs(corpus), folder, SentenceTraining(**{**SMALL, **options}))
    return folder


def untrained(source: Path, **options: Any) -> SentenceTransformer:
    set_seed(1)
    training = SentenceTraining(**{**SMALL, **options})
    with open_corpus(source) as corpus:
        return new_model(Pairs(corpus), source.parent / "untrained", training)


def margin(vectors: Floats) -> float:
    """Return the difference of cosines within one topic and between two topics."""
    cosines = vectors @ vectors.T
    topics = np.array(["ship" in t or "boat" in t or "ferry" in t for t in texts(60, seed=9)])
    alike = topics[:, None] == topics
    return float(cosines[alike].mean() - cosines[~alike].mean())


def test_pairs_teach_which_texts_are_about_one_topic(tmp_path: Path) -> None:
    source = write_pairs(tmp_path / "pairs.tsv", 320)
    before: Any = untrained(source).encode(texts(60, seed=9))
    folder = trained(source)
    ours = Embedder.load(folder, device="cpu", dtype="float32").embed(texts(60, seed=9))
    theirs = SentenceTransformer(str(folder), device="cpu").encode(texts(60, seed=9))
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert margin(before) < 0.1
    assert margin(ours) > 0.4


def test_texts_alone_teach_that_different_texts_differ(tmp_path: Path) -> None:
    source = tmp_path / "corpus.txt"
    source.write_text("\n".join(texts(320)), encoding="utf-8")
    different = sorted({*texts(60, seed=9)})
    before: Any = untrained(source).encode(different)
    after = Embedder.load(trained(source), device="cpu").embed(different)
    apart = ~np.eye(len(different), dtype=bool)
    assert (after @ after.T)[apart].mean() < (before @ before.T)[apart].mean() - 0.1


def test_an_encoder_begins_with_the_numbers_of_its_initialisation(tmp_path: Path) -> None:
    model = untrained(write_pairs(tmp_path / "pairs.tsv", 32), initialization="uniform")
    largest = {name: value.abs().max().item() for name, value in model.state_dict().items()}
    assert all(0.09 < value <= 0.1 for name, value in largest.items() if "query.weight" in name)
    assert all(value == 0 for name, value in largest.items() if name.endswith("bias"))


@pytest.mark.full
def test_the_same_seed_gives_the_same_model(tmp_path: Path) -> None:
    source = write_pairs(tmp_path / "pairs.tsv", 32)
    seeds = {"first": 1, "again": 1, "other": 2}
    first, again, other = (
        (trained(source, name, seed=seed) / "model.safetensors").read_bytes()
        for name, seed in seeds.items()
    )
    assert first == again != other


@pytest.mark.full
def test_accumulation_takes_a_step_for_several_batches(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "embedwell_classic.training.sentences")
    source = write_pairs(tmp_path / "pairs.tsv", 60)
    trained(source, "one", batch_size=10, epochs=2)
    trained(source, "three", batch_size=10, epochs=2, accumulation=3)
    steps = re.findall(r"step (\d+) of (\d+): loss \d", caplog.text)
    assert steps[-1] == ("4", "4") and ("12", "12") in steps


def test_negatives_and_initialisations_train(tmp_path: Path) -> None:
    source = tmp_path / "triples.jsonl"
    row = '{"anchor": "a cat %d", "positive": "a dog %d", "negative": "a ship %d"}'
    source.write_text("\n".join(row % (i, i, i) for i in range(20)), encoding="utf-8")
    options: dict[str, Any] = {"initialization": "he", "algorithm": "wordpiece", "lower": True}
    folder = trained(source, **options, learning_rate=5e-3, epochs=6)
    cat, dog, ship = Embedder.load(folder, device="cpu").embed(["A cat 3", "a dog 3", "a ship 3"])
    assert cat @ dog > cat @ ship + 0.2


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("one\ttwo\nthree\n", {}, r"pairs\.tsv, line 2: write an anchor"),
        ("one\ttwo\n", {}, r"pairs\.tsv has one row, but a batch compares several"),
        ("one\ttwo\n", {"vocabulary": 9}, "a vocabulary of 9 tokens is too small"),
        ("one\ttwo\n", {"heads": 3}, "--dimensions 64 must be a multiple of --heads 3"),
    ],
)
def test_a_corpus_that_cannot_be_trained_with_is_refused(
    tmp_path: Path, content: str, options: dict[str, Any], message: str
) -> None:
    (tmp_path / "pairs.tsv").write_text(content, encoding="utf-8")
    with pytest.raises(ModelError, match=message):
        trained(tmp_path / "pairs.tsv", **options)


@pytest.mark.parametrize("name", INITIALIZATIONS)
def test_matrices_and_tables_have_the_deviation_of_the_formula(name: Initialization) -> None:
    table, linear = nn.Embedding(ROWS, WIDTH, padding_idx=0), nn.Linear(WIDTH, OUTPUTS)
    norm = nn.LayerNorm(WIDTH)
    nn.init.constant_(norm.weight, 3)
    initialize(nn.Sequential(table, linear, norm), name)
    deviations = table.weight[1:].std().item(), linear.weight.std().item()
    assert deviations == pytest.approx(DEVIATIONS[name], rel=0.02)
    assert abs(linear.weight.mean().item()) < 0.01
    assert not linear.bias.any() and not norm.bias.any() and not table.weight[0].any()
    assert (norm.weight == 1).all()
