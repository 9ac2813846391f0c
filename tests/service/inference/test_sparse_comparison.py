"""Sparse vectors of queries and documents, with an engine that fails on some texts."""

import asyncio
from dataclasses import dataclass

import numpy as np
import pytest

from embedwell.engine.protocol.messages import Job, Result
from embedwell.errors import EncodingFailed
from embedwell.inference.pipeline import Pipeline
from embedwell.inference.sparse_comparison import compute_sparse_vectors
from embedwell.inputs.options import InputOptions
from embedwell.inputs.reader import InputReader
from embedwell.process.shared_counters import SharedCounters
from embedwell.request.admission import Admission
from embedwell.request.request_context import RequestContext
from embedwell_models.outputs.names import SPARSE, SPARSE_QUERY
from embedwell_models.outputs.text_outputs import SparseVector, TextOutputs

VECTOR = SparseVector(np.array([3], dtype=np.int32), np.array([2], dtype=np.float32))


@dataclass
class FailingEngine:
    """Fails on the second text of jobs of one output."""

    output: str

    async def submit(self, job: Job, timeout: float) -> Result:
        if job.output == self.output:
            raise EncodingFailed("it fails", index=1)
        columns = [TextOutputs(sparse=VECTOR).pack() for _ in job.texts_ids]
        return Result(np.concatenate(columns), 5, 7, 1.0, [*map(len, columns)])

    def tokens_to_compute(self, job: Job) -> int:
        return job.tokens


@pytest.mark.parametrize(("output", "index"), [(SPARSE_QUERY, 1), (SPARSE, 4)])
def test_a_failure_has_the_index_among_all_inputs(
    reader: InputReader, output: str, index: int
) -> None:
    pipeline = Pipeline(
        *(reader, Admission(1, lambda: 0.0, SharedCounters.private()), FailingEngine(output), 1),
        output_names=(SPARSE, SPARSE_QUERY),
    )
    compared = compute_sparse_vectors(
        *(pipeline, RequestContext("a"), ["a", "b", "c", "d", "e"], InputOptions(), 3)
    )
    with pytest.raises(EncodingFailed) as failed:
        asyncio.run(compared)
    assert failed.value.index == index
