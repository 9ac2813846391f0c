"""Vectors of the tokens of queries and documents, with an engine that fails on one text."""

import asyncio
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from embedwell.compute.multi_vectors import MultiVectors, TokenVectors
from embedwell.compute.request_limits import RequestCosts
from embedwell.compute.request_reader import RequestReader
from embedwell.compute.work_queue import ComparisonQueue
from embedwell.engine.wire.messages import Job, Result
from embedwell.errors import BadRequest, EncodingFailed, Overloaded
from embedwell.http.request_context import RequestContext
from embedwell.routes.similarity import compare_tokens
from embedwell.routes.similarity_bodies import SimilarityRequest
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.encoder.token_pooling import MAX_TOKENS
from embedwell_models.outputs.names import MULTI
from embedwell_models.read.inputs import InputOptions, TextPair
from embedwell_models.tokenizer.steps import Steps
from tests.models.colbert import write_stanford
from tests.service.pipelines import comparisons, pipeline_of


@dataclass
class FailingEngine:
    """Fails on the text of one index."""

    description = None
    index: int

    async def submit(self, job: Job, timeout: float) -> Result:
        raise EncodingFailed("it fails", index=self.index)


def failing_at(
    index: int, reader: RequestReader, folder: Path, queue: ComparisonQueue | None = None
) -> MultiVectors:
    write_stanford(folder)
    model = ModelDescription.read(folder)
    pipeline = pipeline_of(FailingEngine(index), output_names=(MULTI,))
    rules = model.multi_vector_rules(model.tokenizer())
    return MultiVectors(reader, pipeline, rules, model.dim, queue or comparisons())


@pytest.mark.parametrize(("failing", "index"), [(0, 0), (1, 1), (2, 0), (3, 4)])
def test_a_failure_has_the_index_of_the_first_pair_with_its_text(
    reader: RequestReader, tmp_path: Path, failing: int, index: int
) -> None:
    """The engine computes the queries q and r, and then the documents b and c."""
    vectors = failing_at(failing, reader, tmp_path)
    texts = [("q", "b"), ("r", "b"), ("q", "b"), ("r", "b"), ("q", "c")]
    pairs = [TextPair(*pair) for pair in texts]
    with pytest.raises(EncodingFailed) as failed:
        asyncio.run(vectors.scores(RequestCosts(), pairs, InputOptions(truncate=True)))
    assert failed.value.index == index


@pytest.mark.parametrize(("failing", "param", "index"), [(1, "a", 1), (2, "b", 0), (4, "b", 2)])
def test_a_failure_of_similarity_names_the_field_and_the_index_in_it(
    reader: RequestReader, tmp_path: Path, failing: int, param: str, index: int
) -> None:
    vectors = failing_at(failing, reader, tmp_path)
    body = SimilarityRequest.model_validate({"a": ["a", "b"], "b": ["c", "d", "e"]})
    with pytest.raises(EncodingFailed) as failed:
        asyncio.run(compare_tokens(vectors, RequestContext("a"), body, 100))
    assert (failed.value.param, failed.value.index) == (param, index)


def test_the_scores_of_many_pairs_are_refused_if_they_would_wait_too_long(
    reader: RequestReader, tmp_path: Path
) -> None:
    """A comparison of half a billion operations is running; at first a second has 100 million."""
    started, done = threading.Event(), threading.Event()

    def first() -> Steps[bool]:
        started.set()
        yield
        return done.wait(60)

    async def run() -> None:
        queue = comparisons(rate=100, max_wait=1)
        vectors = failing_at(0, reader, tmp_path, queue)
        working = asyncio.create_task(queue.run(first(), 5 * 10**8))
        await asyncio.to_thread(started.wait, 60)
        text = np.ones((100, 128), dtype=np.float32)
        with pytest.raises(Overloaded, match="would wait"):
            await vectors.maxsim_scores([(text, text)] * 400)
        assert (await vectors.maxsim_scores([(text, text[:2])])).tolist() == [12800]
        number = np.ones((1, 1), dtype=np.float32)
        with pytest.raises(Overloaded, match="would wait"):
            await vectors.maxsim_scores([(number, number)] * 10_000)
        done.set()
        await working
        assert (await vectors.maxsim_scores([(text, text)] * 400)).tolist() == [12800] * 400

    asyncio.run(run())


@pytest.mark.parametrize(("failing", "index"), [(0, None), (2, 1)])
def test_a_failure_has_the_index_of_the_sentence(
    reader: RequestReader, tmp_path: Path, failing: int, index: int | None
) -> None:
    vectors = failing_at(failing, reader, tmp_path)
    body = SimilarityRequest.model_validate(
        {"inputs": {"source_sentence": "a", "sentences": ["b", "c"]}}
    )
    with pytest.raises(EncodingFailed) as failed:
        asyncio.run(compare_tokens(vectors, RequestContext("a"), body, 100))
    assert (failed.value.param, failed.value.index) == ("inputs", index)


def test_a_query_that_is_scored_in_several_steps_has_the_sum_of_its_rows(
    reader: RequestReader, tmp_path: Path
) -> None:
    query, document = (np.ones((rows, 128), dtype=np.float32) for rows in (300, 8192))
    scores = failing_at(0, reader, tmp_path).maxsim_scores([(query, document)])
    assert asyncio.run(scores).tolist() == [300 * 128]


def test_a_text_with_too_many_vectors_to_pool_is_named(
    reader: RequestReader, tmp_path: Path
) -> None:
    rows = [np.ones((count, 8), dtype=np.float32) for count in (9, MAX_TOKENS + 1)]
    texts, costs = TokenVectors([], rows, []), RequestCosts()
    with pytest.raises(BadRequest, match="split it") as failed:
        asyncio.run(failing_at(0, reader, tmp_path).pool(costs, texts, 2, "document"))
    assert (failed.value.param, failed.value.index) == ("pool_factor", 1)
    assert costs.memory.size >= 8 * MAX_TOKENS**2
