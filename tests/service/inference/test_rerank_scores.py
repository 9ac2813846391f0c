"""Errors and memory of scores of lists."""

import asyncio
from pathlib import Path

import pytest

from embedwell.engine.wire.messages import Job, Result
from embedwell.errors import EncodingFailed
from embedwell.inference.rerank_scores import ListwiseScores
from embedwell.limits.request_costs import RequestCosts
from embedwell.limits.work_queue import ComparisonQueue
from embedwell.settings.settings import Settings
from embedwell_models.model_description import ModelDescription
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
    model = ModelDescription.read(write_listwise_reranker(tmp_path))
    assert model.listwise
    tokenizer = Tokenizer(model.path, 2048)
    lists = model.listwise.tokenizer(tokenizer)
    reader = reader_with(tokenizer, model.recipe, max_texts=300, lists=lists)
    comparisons = ComparisonQueue.of(Settings(model="a"))
    scores = ListwiseScores(pipeline_of(reader, FailingEngine()), model.dim, comparisons)
    context, pairs = RequestCosts(), [TextPair("a query", "a work")] * 130
    with pytest.raises(EncodingFailed) as raised:
        asyncio.run(scores.scores(context, pairs, InputOptions()))
    assert raised.value.index == 125
    assert context.memory.size >= 4 * model.dim * len(pairs)
