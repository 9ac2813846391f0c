"""Vectors of the tokens of queries and documents, with an engine that fails on one text."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from models.folder import Folder
from models.outputs.names import MULTI
from service.engine.protocol.messages import Job, Result
from service.errors import EncodingFailed
from service.inference.multi_vectors import MultiVectors
from service.inference.pipeline import Pipeline
from service.inputs.options import InputOptions
from service.inputs.reader import InputReader
from service.process.shared_counters import SharedCounters
from service.request.admission import Admission
from service.request.request_context import RequestContext
from tests.models.colbert import write_stanford


@dataclass
class FailingEngine:
    """Fails on the text of one index."""

    index: int

    async def submit(self, job: Job, timeout: float) -> Result:
        raise EncodingFailed("it fails", index=self.index)

    def computed_tokens(self, job: Job) -> int:
        return job.tokens


@pytest.mark.parametrize(("failing", "index"), [(0, 0), (1, 0), (2, 0), (4, 2)])
def test_a_failure_has_the_index_of_the_document(
    reader: InputReader, tmp_path: Path, failing: int, index: int
) -> None:
    write_stanford(tmp_path)
    folder = Folder.read(tmp_path)
    pipeline = Pipeline(
        *(reader, Admission(1, lambda: 0.0, SharedCounters.private()), FailingEngine(failing), 1),
        output_names=(MULTI,),
    )
    tokens = folder.multi_vector_tokens(folder.tokenizer())
    computed = MultiVectors(pipeline, tokens, folder.dim).query_document_vectors(
        RequestContext("a"), ["a", "b"], ["c", "d", "e"], InputOptions(truncate=True)
    )
    with pytest.raises(EncodingFailed) as failed:
        asyncio.run(computed)
    assert failed.value.index == index
