"""Rerankers of an encoder and a decoder, against the steps that their authors published."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedwell_models import Embedder
from embedwell_models.config.model_options import ModelOptions
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import InstructionTooLongError, ModelError, UnpairedTextError
from embedwell_models.vectors import Floats
from tests.conftest import precisions
from tests.models.decoder_reranker import write
from tests.models.families.exact import Expected, assert_near, exactly
from tests.models.kalm_reranker import Published, configure, write_kalm_reranker, write_modules

PAIRS = [
    ("What is rust?", "A fungus of plants."),
    ("the license of this work", "x"),
    ("x", "you may copy the work " * 60),
    ("  a query with spaces \n", "\n a document of the license. \n"),
    ("", "and"),
    ("the the", ""),
    ("who may distribute copies? " * 40, "any copy of the license"),
    ("What is rust?", "é ß 漢字 {query} <bos> {instruction}"),
]
LEAST = {"float32": 1.0, "bfloat16": 0.995, "int8": 0.98}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_kalm_reranker(tmp_path_factory.mktemp("kalm"))


@pytest.fixture(scope="module")
def embedder(folder: Path) -> Embedder:
    return load(folder)


def load(folder: Path, **options: Any) -> Embedder:
    return Embedder.load(folder, device="cpu", **{"dtype": "float32", **options})


def assert_close(scores: Floats, expected: Expected) -> None:
    assert_near(np.ravel(scores), expected)


def test_scores_are_the_published_ones(embedder: Embedder, folder: Path) -> None:
    expected = exactly(Published(folder).scores)(PAIRS)
    assert np.ptp(expected.values.numpy()) > 1.0
    assert_close(embedder.score(PAIRS), expected)


def test_a_decoder_is_not_left_out_where_the_kernels_could_compute_its_encoder(
    tmp_path: Path,
) -> None:
    sizes = {"head_dim": 32, "intermediate_size": 128, "sliding_window": 7}
    folder = write_kalm_reranker(tmp_path, **sizes)
    assert_close(load(folder).score(PAIRS), exactly(Published(folder).scores)(PAIRS))


def test_a_score_is_the_same_bits_in_every_batch(embedder: Embedder) -> None:
    together = embedder.score(PAIRS)
    assert np.array_equal(together, embedder.score(PAIRS, budget=40))
    assert np.array_equal(together, np.stack([embedder.score(pair) for pair in PAIRS]))


def test_an_instruction_replaces_the_published_one(embedder: Embedder, folder: Path) -> None:
    expected = exactly(Published(folder).scores)(PAIRS, "Find the opposite.")
    assert abs(expected.values.numpy() - np.ravel(embedder.score(PAIRS))).max() > 0.1
    assert_close(embedder.score(PAIRS, instruction="Find the opposite."), expected)


@pytest.mark.parametrize(
    ("options", "published"),
    [
        ({"encoder_chunk_size": None}, {"chunk_size": 1}),
        ({"encoder_chunk_size": 3}, {"chunk_size": 3}),
        (
            {"query_max_length": 4, "document_max_length": 30, "encoder_chunk_size": 4},
            {"max_query": 4, "max_document": 30},
        ),
        ({"system_instruction": "Judge {query}."}, {"system": "Judge {query}."}),
    ],
    ids=["states", "three", "lengths", "system"],
)
def test_the_file_of_the_authors_module_is_read(
    options: dict[str, Any], published: dict[str, Any], tmp_path: Path
) -> None:
    folder = write_modules(write_kalm_reranker(tmp_path))
    plain = load(folder)
    embedder, expected = load(write_modules(folder, **options)), Published(folder, **published)
    assert_close(embedder.score(PAIRS), exactly(expected.scores)(PAIRS))
    assert not np.allclose(embedder.score(PAIRS), plain.score(PAIRS), atol=1e-3)
    assert embedder.fingerprint != plain.fingerprint


@pytest.mark.full(after=1)
@pytest.mark.parametrize("dtype", precisions())
def test_every_precision_ranks_as_float32(dtype: str, embedder: Embedder, folder: Path) -> None:
    scores = np.ravel(load(folder, dtype=dtype).score(PAIRS))
    correlation = np.corrcoef(scores, np.ravel(embedder.score(PAIRS)))[0, 1]
    assert correlation >= LEAST[dtype] - 1e-9


def test_the_model_reranks_whatever_its_card_says(folder: Path, tmp_path: Path) -> None:
    description = ModelDescription.read(folder)
    assert description.task == "rerank" and description.recipe.max_length == 2048
    described = ModelDescription.read(write_modules(write_kalm_reranker(tmp_path)))
    assert described.classifier == description.classifier


def test_a_text_alone_and_a_long_instruction_are_refused(embedder: Embedder) -> None:
    with pytest.raises(UnpairedTextError):
        embedder.score([("a", None)])
    with pytest.raises(InstructionTooLongError):
        embedder.score(PAIRS, instruction="any work " * 1000)


@pytest.mark.parametrize("name", ["pair", "qwen3-reranker"])
def test_another_format_is_refused(name: str, folder: Path) -> None:
    with pytest.raises(ModelError, match="rerank_format"):
        ModelDescription.read(folder, ModelOptions(rerank_format=name))


@pytest.mark.parametrize(
    ("options", "named"),
    [({"query_max_length": 0}, "query_max_length"), ({"matryoshka": 4}, "matryoshka")],
)
def test_an_unknown_or_wrong_option_is_refused(
    options: dict[str, Any], named: str, tmp_path: Path
) -> None:
    folder = write_modules(write_kalm_reranker(tmp_path), **options)
    with pytest.raises(ModelError, match=named):
        ModelDescription.read(folder)


def test_capped_logits_and_missing_answers_are_refused(tmp_path: Path) -> None:
    folder = write_kalm_reranker(tmp_path)
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    configure(folder, "decoder", final_logit_softcapping=30.0)
    with pytest.raises(ModelError, match="final_logit_softcapping"):
        ModelDescription.read(folder)
    configure(folder, "decoder", final_logit_softcapping=None)
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["YES"] = vocabulary.pop("yes")
    tokenizer["model"]["merges"] = []
    write(path, tokenizer)
    with pytest.raises(ModelError, match="answer tokens"):
        ModelDescription.read(folder)
