"""Errors and memory of scores of lists."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from embedwell.compute.pairs_and_lists import ListReader
from embedwell.compute.request_limits import RequestCosts
from embedwell.compute.rerank_scores import ListwiseScores
from embedwell.engine.wire.messages import Job, Result
from embedwell.errors import EncodingFailed
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.read.inputs import InputOptions, TextPair
from embedwell_models.tokenizer.tokenizer import Tokenizer
from tests.models.listwise_reranker import write_listwise_reranker
from tests.service.pipelines import pipeline_of, reader_with


class FailingEngine:
    """Fails on the last sequence of a job."""

    description = None

    async def submit(self, job: Job, timeout: float) -> Result:
        raise EncodingFailed("it fails", index=len(job.texts_ids) - 1)


def test_a_block_that_fails_has_the_index_of_its_first_document(tmp_path: Path) -> None:
    description = ModelDescription.read(write_listwise_reranker(tmp_path))
    assert description.listwise
    tokenizer = Tokenizer(description.path, 2048)
    lists = description.listwise.tokenizer(tokenizer)
    reader = reader_with(tokenizer, description.recipe, max_texts=300)
    model: Any = SimpleNamespace(
        lists=ListReader(reader, lists),
        pipeline=pipeline_of(FailingEngine()),
        description=description,
    )
    scores = ListwiseScores(model)
    context, pairs = RequestCosts(), [TextPair("a query", "a work")] * 130
    with pytest.raises(EncodingFailed) as raised:
        asyncio.run(scores.scores(context, pairs, InputOptions()))
    assert raised.value.index == 125
    assert context.memory.size >= 4 * description.dim * len(pairs)
