"""Tokenization of lists of documents."""

import pytest

from embedwell_models.description.model_description import ModelDescription
from embedwell_models.tokenizer.lists import ListEncoder
from embedwell_models.tokenizer.steps import run_to_completion
from embedwell_models.tokenizer.tokenizer import Tokenizer
from tests.models.listwise_reranker import write_listwise_reranker


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> ListEncoder:
    description = ModelDescription.read(write_listwise_reranker(tmp_path_factory.mktemp("lists")))
    assert description.listwise
    return description.listwise.tokenizer(Tokenizer(description.path, 2048))


def test_each_document_of_a_block_is_a_step(tokenizer: ListEncoder) -> None:
    blocks = run_to_completion(tokenizer.begin("a query"))
    assert all(len([*blocks.add("a work")]) == 1 for _ in range(5))
    assert not blocks.ids


def test_a_maximum_above_the_format_s_changes_no_block(tokenizer: ListEncoder) -> None:
    sizes = []
    for most in (None, 9000):
        blocks = run_to_completion(tokenizer.begin("a query", max_document=most))
        for _ in range(9):
            run_to_completion(blocks.add("of the work, " * 900))
        sizes.append(blocks.sizes)
    assert sizes[0] == sizes[1] and sizes[0]
