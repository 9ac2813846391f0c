"""Sparse vectors of queries and documents, with an engine that fails on some texts."""

import asyncio
from dataclasses import dataclass

import numpy as np
import pytest

from embedwell.engine.wire.messages import Job, Result
from embedwell.errors import EncodingFailed, TooLarge
from embedwell.http.request_context import RequestContext
from embedwell.inference.sparse_comparison import compute_sparse_vectors
from embedwell.inputs.options import InputOptions
from embedwell.inputs.request_tokenizer import RequestTokenizer
from embedwell_models.outputs.names import SPARSE, SPARSE_QUERY
from embedwell_models.outputs.text_outputs import SparseVector, TextOutputs
from tests.service.inference.pipelines import pipeline_of
from tests.service.inputs.readers import CountingTokenizer, reader_with

VECTOR = SparseVector(np.array([3], dtype=np.int32), np.array([2], dtype=np.float32))


@dataclass
class FailingEngine:
    """Fails on the second text of jobs of one output."""

    description = None
    output: str

    async def submit(self, job: Job, timeout: float) -> Result:
        if job.output == self.output:
            raise EncodingFailed("it fails", index=1)
        columns = [TextOutputs(sparse=VECTOR).pack() for _ in job.texts_ids]
        return Result(np.concatenate(columns), 5, 7, 1.0, [*map(len, columns)])


@pytest.mark.parametrize(("output", "index"), [(SPARSE_QUERY, 1), (SPARSE, 4)])
def test_a_failure_has_the_index_among_all_inputs(
    reader: RequestTokenizer, output: str, index: int
) -> None:
    pipeline = pipeline_of(
        reader,
        FailingEngine(output),
        output_names=(SPARSE, SPARSE_QUERY),
    )
    compared = compute_sparse_vectors(
        *(pipeline, RequestContext("a"), ["a", "b", "c", "d", "e"], InputOptions()),
        num_queries=3,
        max_values=100,
    )
    with pytest.raises(EncodingFailed) as failed:
        asyncio.run(compared)
    assert failed.value.index == index


@dataclass
class StuckEngine:
    """Computes its first job alone; vectors have 3 entries."""

    description = None
    jobs: int = 0

    async def submit(self, job: Job, timeout: float) -> Result:
        self.jobs += 1
        if self.jobs > 1:
            await asyncio.get_running_loop().create_future()
        ones = np.ones(3, dtype=np.float32)
        vector = SparseVector(np.arange(3, dtype=np.int32), ones)
        columns = [TextOutputs(sparse=vector).pack() for _ in job.texts_ids]
        return Result(np.concatenate(columns), 5, 7, 1.0, [*map(len, columns)])


def test_a_comparison_that_needs_too_many_numbers_is_not_computed_to_its_end(
    counting: CountingTokenizer,
) -> None:
    many = reader_with(counting, max_texts=100)
    pipeline = pipeline_of(
        many,
        StuckEngine(),
        output_names=(SPARSE,),
    )
    compared = compute_sparse_vectors(
        *(pipeline, RequestContext("a"), ["a"] * 40, InputOptions()),
        num_queries=1,
        max_values=119,
    )
    with pytest.raises(TooLarge, match="needs 120 numbers or more, but the limit is 119"):
        asyncio.run(asyncio.wait_for(compared, 60))
