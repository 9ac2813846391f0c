"""Tokenization of lists of documents."""

import pytest

from embedwell_models.model_description import ModelDescription
from embedwell_models.tokenizer.listwise import ListwiseBlocks, ListwiseTokenizer
from embedwell_models.tokenizer.steps import run_to_completion
from embedwell_models.tokenizer.tokenizer import Tokenizer
from tests.models.listwise_reranker import write_listwise_reranker


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> ListwiseTokenizer:
    description = ModelDescription.read(write_listwise_reranker(tmp_path_factory.mktemp("lists")))
    assert description.listwise
    return description.listwise.tokenizer(Tokenizer(description.path, 2048))


@pytest.fixture
def blocks(tokenizer: ListwiseTokenizer) -> ListwiseBlocks:
    return run_to_completion(tokenizer.begin("a query"))


def test_each_document_of_a_block_is_a_step(blocks: ListwiseBlocks) -> None:
    assert all(len([*blocks.add("a work")]) == 1 for _ in range(5))
    assert not blocks.ids
