"""Listwise rerankers, against the steps that their authors published."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedwell_models import Embedder
from embedwell_models.config.model_options import ModelOptions
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from tests.models.families.exact import assert_near, exactly
from tests.models.listwise_reranker import DOCUMENT, QUERY, Published, write_listwise_reranker

ASKED = "Who may copy the license?"
DOCUMENTS = [
    "Anyone may copy the license, and distribute copies of it.",
    "a work",
    "",
    f"a {DOCUMENT}document with {QUERY}markers<|im_end|> and <think>",
    "é ß 漢字 {index} {query}\n\n",
    "the license of the work " * 40,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_listwise_reranker(tmp_path_factory.mktemp("listwise"))


@pytest.fixture(scope="module")
def published(folder: Path) -> Published:
    return Published(folder)


@pytest.fixture(scope="module")
def embedder(folder: Path) -> Embedder:
    return load(folder)


def load(folder: Path, **options: Any) -> Embedder:
    return Embedder.load(folder, device="cpu", dtype="float32", **options)


def test_scores_of_a_list_are_the_published_ones(embedder: Embedder, published: Published) -> None:
    expected = exactly(published.scores)(ASKED, DOCUMENTS)
    assert np.ptp(expected.values.numpy()) > 0.05
    assert_near(embedder.rank(ASKED, DOCUMENTS), expected)


def test_an_instruction_is_read_before_the_documents(
    embedder: Embedder, published: Published
) -> None:
    told = exactly(published.scores)(ASKED, DOCUMENTS, "Find the opposite.")
    assert (told.values - published.scores(ASKED, DOCUMENTS)).abs().max() > 1e-3
    assert_near(embedder.rank(ASKED, DOCUMENTS, instruction="Find the opposite."), told)


def test_long_texts_are_cut_as_published(embedder: Embedder, published: Published) -> None:
    query = "a query in 漢字 of the work, " * 60
    documents = ["a copy", f"{DOCUMENT}漢字 of 漢字! " * 900, "x"]
    assert_near(embedder.rank(query, documents), exactly(published.scores)(query, documents))


def test_markers_are_removed_from_a_query(embedder: Embedder, published: Published) -> None:
    query = f"{QUERY}Who {DOCUMENT}copies?"
    assert_near(embedder.rank(query, DOCUMENTS), exactly(published.scores)(query, DOCUMENTS))


@pytest.mark.parametrize(
    "nested",
    ["<|rerank_<|embed_token|>token|>", "<|embed_<|embed_token|>token|>"],
)
def test_what_is_left_around_a_marker_is_no_marker(embedder: Embedder, nested: str) -> None:
    # The published steps fail here, as they look for one marker of each text.
    clean = embedder.rank("a work", ["a copy", "the license"], instruction="of")
    scores = embedder.rank(
        "a work" + nested, ["a copy" + nested, "the license"], instruction="of" + nested
    )
    assert np.array_equal(scores, clean)


@pytest.mark.full(after=2)
def test_blocks_of_many_documents_share_a_query(embedder: Embedder, published: Published) -> None:
    documents = [f"{number} copies of the work" for number in range(260)]
    expected = exactly(published.scores)(ASKED, documents)
    assert published.blocks == [125, 125, 10]
    assert_near(embedder.rank(ASKED, documents), expected)


@pytest.mark.full(after=2)
def test_blocks_of_long_documents_end_before_the_model_s_limit(tmp_path: Path) -> None:
    folder = write_listwise_reranker(tmp_path, max_length=6000)
    published = Published(folder)
    documents = [f"{number} copies of the work. " * (60 + 20 * number) for number in range(9)]
    expected = exactly(published.scores)(ASKED, documents)
    assert len(published.blocks) > 2
    assert_near(load(folder).rank(ASKED, documents), expected)


def test_a_list_has_the_same_bytes_again(embedder: Embedder) -> None:
    first, second = (embedder.rank(ASKED, DOCUMENTS) for _ in range(2))
    assert np.array_equal(first, second)


def test_a_document_changes_the_scores_of_others(embedder: Embedder) -> None:
    alone, together = embedder.rank(ASKED, ["a copy"]), embedder.rank(ASKED, ["a work", "a copy"])
    assert abs(alone[0] - together[1]) > 1e-4


def test_a_folder_is_described_as_a_reranker_of_lists(folder: Path) -> None:
    description = ModelDescription.read(folder)
    assert (description.task, description.outputs, description.dim) == ("rerank", (), 512)
    assert description.listwise and description.listwise.max_length == 16384
    assert description.recipe.max_length == 2048


def test_with_a_pooling_the_model_embeds_texts(folder: Path) -> None:
    assert load(folder, pooling="mean").embed(["a work"]).shape == (1, 64)


def test_the_wrong_call_names_the_right_one(embedder: Embedder, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"use rank\(query, documents\)"):
        embedder.embed(["a text"])
    with pytest.raises(ValueError, match=r"ranks lists and cannot score pairs; use rank\("):
        embedder.score([("a query", "a document")])
    with pytest.raises(ValueError, match="at least one document"):
        embedder.rank("a query", [])


def test_a_format_of_pairs_and_a_missing_marker_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="leave rerank_format 'auto'"):
        ModelDescription.read(folder, ModelOptions(rerank_format="qwen3-reranker"))
    write_listwise_reranker(tmp_path, vocab_size=503)
    with pytest.raises(ModelError, match="lacks one of the tokens"):
        ModelDescription.read(tmp_path)
